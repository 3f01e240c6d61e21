"""Parameters of a plugin's target: its keyword-only arguments, checked and bound."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from mintact_platform.errors import ConfigurationError, near_match


def parameters(target: Callable[..., Any]) -> type[BaseModel]:
    """A pydantic model of the target's keyword-only arguments; unknown keys are refused."""
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(target, eval_str=True).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (annotation, default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())
    return create_model("parameters", __config__=config, **fields)


def check(target: Callable[..., Any], params: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The parameters with defaults filled in and types converted.

    Raises:
        ConfigurationError: naming `where`, the parameter, and what is accepted.
    """
    model = parameters(target)
    try:
        checked = model(**params)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigurationError(
                f"unknown parameter {name!r}",
                where=where,
                next=near_match(name, model.model_fields),
            ) from None
        raise ConfigurationError(
            f"parameter {name!r}: {first['msg'].lower()}, got {first['input']!r}", where=where
        ) from None
    return {name: getattr(checked, name) for name in model.model_fields}


def bind(
    target: Callable[..., Any], params: Mapping[str, Any], *, where: str
) -> Callable[..., Any]:
    """The target with its parameters bound; a class stays to be called for an instance."""
    return functools.partial(target, **check(target, params, where=where))
