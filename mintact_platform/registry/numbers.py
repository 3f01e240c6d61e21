"""What passes for a number in Python and is none in a setting: truth values, and the endless.

A run records its settings as JSON, which has no infinity either.
"""

from __future__ import annotations

import math
from typing import Any, get_args

from pydantic import BaseModel, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

_BITS = 63
"""Of the largest whole number that a database holds."""


def _plain(model: type[BaseModel], value: Any, info: ValidationInfo) -> Any:
    field = model.model_fields.get(info.field_name or "")
    types = _types(field.annotation) if field is not None else []
    if any(one in (Any, object) for one in types):
        if where := _endless(value):
            raise PydanticCustomError("number", "{where} is no finite number", {"where": where})
        return value
    held = value if isinstance(value, (list, tuple)) else (value,)
    if not any(map(_odd, held)) or not any(one in (int, float) for one in types) or bool in types:
        return value
    if any(isinstance(one, bool) for one in held):
        raise PydanticCustomError("number", "a truth value is no number")
    raise PydanticCustomError("number", f"input should be a number of at most {_BITS} bits")


plain_numbers: Any = field_validator("*", mode="before")(classmethod(_plain))
"""For a model: where a field takes numbers, nothing else that Python calls one is taken."""


def _odd(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, int) and value.bit_length() > _BITS)


def _endless(value: Any, place: str = "") -> str:
    """Where in a value there is a number that is not finite, "" where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return place or "it"
    named = value.items() if isinstance(value, dict) else ()
    found = enumerate(value) if isinstance(value, (list, tuple)) else named
    return next(filter(None, (_endless(v, f"{place}.{k}".lstrip(".")) for k, v in found)), "")


def _types(annotation: Any) -> list[Any]:
    """The annotation and all that it is made of."""
    return [annotation, *(inner for part in get_args(annotation) for inner in _types(part))]
