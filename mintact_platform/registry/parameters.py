"""Parameters of a plugin's target: its keyword-only arguments, checked and bound."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from mintact_platform.errors import ConfigurationError, MintactError, PluginError, near_match, shown
from mintact_platform.registry import signatures
from mintact_platform.registry.lines import one_line
from mintact_platform.registry.numbers import plain_numbers

_NUMBERS = {"numbers": plain_numbers}


def parameters(target: Callable[..., Any]) -> type[BaseModel]:
    """A pydantic model of the target's keyword-only arguments.

    Unknown keys are refused, unless the target takes any (`**kwargs`).

    Raises:
        PluginError: nobody can tell what it takes.
    """
    fields: dict[str, Any] = {}
    extra: Literal["allow", "forbid"] = "forbid"
    for parameter in signatures.read(target).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
        if parameter.kind is parameter.KEYWORD_ONLY:
            annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (annotation, default)
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True, protected_namespaces=())
    try:
        with warnings.catch_warnings():
            # of names and types that pydantic would rather not see; what matters is refused
            warnings.simplefilter("ignore")
            return create_model("parameters", __config__=config, __validators__=_NUMBERS, **fields)
    except Exception as error:  # whatever stands as a type may do anything
        raise PluginError(f"its parameters cannot be checked: {one_line(error)}") from error


def check(target: Callable[..., Any], params: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The parameters with defaults filled in and types converted.

    Raises:
        ConfigurationError: naming `where`, the parameter, and what is accepted.
        PluginError: naming `where`; nobody can tell what it takes.
    """
    try:
        model = parameters(target)
    except PluginError as error:
        raise PluginError(error.what, where=where, next=error.next) from error
    return _checked(model, params, where)


def check_schema(
    schema: Mapping[str, Any], params: Mapping[str, Any], *, where: str, names_only: bool = False
) -> None:
    """Check parameters of a target that is not installed here by their JSON schema.

    Names, simple types and ranges of numbers are checked here, the rest where the target is. A
    schema that says something odd, as a foreign server's may, checks so much less.

    Args:
        schema: of the parameters.
        params: given ones.
        where: they stand.
        names_only: the target's own types have been asked.

    Raises:
        ConfigurationError: naming `where`, the parameter, and what is accepted.
    """
    properties, required = schema.get("properties"), schema.get("required")
    described = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list | tuple) else ()
    fields: dict[str, Any] = {
        name: (Any if names_only else _simple(one), ... if name in needed else None)
        for name, one in described.items()
        if not name.startswith("_")
    }
    extra: Literal["allow", "forbid"] = "allow"
    if schema.get("additionalProperties", True) is False and len(fields) == len(described):
        extra = "forbid"
    config = ConfigDict(extra=extra, protected_namespaces=())
    with warnings.catch_warnings():
        # of names that pydantic would rather not see
        warnings.simplefilter("ignore")
        model = create_model("parameters", __config__=config, __validators__=_NUMBERS, **fields)
    _checked(model, params, where)


def _simple(described: Any) -> Any:
    """The type that a property is described with, its bounds too where they are numbers."""
    if not isinstance(described, Mapping) or not isinstance(described.get("type"), str):
        return Any
    kind = _SIMPLE.get(described["type"], Any)
    if kind not in (int, float):
        return kind
    bounds: Any = {}
    for short, name in _BOUNDS.items():
        bound: Any = described.get(name)
        if type(bound) in (int, float) and math.isfinite(bound) and kind(bound) == bound:
            bounds[short] = kind(bound)
    return Annotated[kind, Interval(**bounds)]


_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SIMPLE: Mapping[Any, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _checked(model: type[BaseModel], params: Mapping[str, Any], where: str) -> dict[str, Any]:
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
        said = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError(
            f"parameter {name!r}: {said[:1].lower()}{said[1:]}, got {shown(first['input'])}",
            where=where,
        ) from None
    known = {name: getattr(checked, name) for name in model.model_fields}
    return {**known, **(checked.model_extra or {})}


def bind(
    target: Callable[..., Any], params: Mapping[str, Any], *, where: str
) -> Callable[..., Any]:
    """The target with its parameters bound; a class stays to be called for an instance."""
    return functools.partial(target, **check(target, params, where=where))


def made(
    factory: Callable[..., Any], *arguments: Any, where: str, offers: Iterable[str] = ()
) -> Any:
    """What a plugin's target returns when it is called.

    Args:
        factory: the target, its parameters bound.
        arguments: what it is called with.
        where: what it is, for errors.
        offers: methods that the thing made must have.

    Raises:
        MintactError: of its own.
        PluginError: anything else that it raises, or a method that is missing, naming `where`.
    """
    try:
        thing = factory(*arguments)
        lacking = [name for name in offers if not callable(getattr(thing, name, None))]
    except (MintactError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever it is, it is the plugin's
        why = one_line(error)
        raise PluginError(f"cannot be made: {why}", where=where) from error
    if lacking:
        raise PluginError(f"makes a {type(thing).__name__}, without {lacking[0]}()", where=where)
    return thing
