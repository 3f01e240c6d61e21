"""Sample calls of an action space, made from what it says of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mintact_platform.actions.arguments import COORDINATES
from mintact_platform.actions.space import ActionSpace, Call
from mintact_platform.records.task import Task

Schema = Mapping[str, Any]

TASK = Task("conformance", "do it", "tools")
_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_POINT = [500, 250]
_SIMPLE: Mapping[str, Any] = {
    "string": "north",
    "integer": 3,
    "number": 1.5,
    "boolean": True,
    "object": {},
    "null": None,
}


def functions_of(space: ActionSpace, tools: Sequence[Schema] = ()) -> list[Schema]:
    """Schemas of the functions that an agent is told of; [] where the space says none.

    They come from the prompt's `<tools>` lines where there are some, else from `describe`.
    """
    found = _TOOLS.search(space.system_prompt(TASK, tools))
    if found:
        lines = (json.loads(line) for line in found[1].splitlines())
        return [line.get("function", line) for line in lines]
    described = _described(space)
    return [*described.get("functions", ()), *(tool.get("function", tool) for tool in tools)]


def sample_calls(space: ActionSpace, tools: Sequence[Schema] = ()) -> list[Call]:
    """A call of every tool and action, once with what it needs and once with all it takes."""
    calls: list[Call] = []
    actions = _described(space).get("actions", ())
    for function in functions_of(space, tools):
        for shape in _shapes(function, actions):
            calls += [c for c in _both(str(function["name"]), shape) if c not in calls]
    return calls


def verbs_of(function: Schema) -> tuple[str, ...]:
    """Actions that a function offers to choose from; () for a function without."""
    return tuple(_properties(function).get("action", {}).get("enum", ()))


def points_of(call: Call) -> list[str]:
    """Names of the arguments that hold a position."""
    return [name for name, value in call.arguments.items() if _is_point(name, value)]


def sample(schema: Schema, name: str = "") -> Any:
    """A value that a JSON schema admits.

    Example:
        >>> sample({"type": "integer", "minimum": 5})
        5
    """
    if "const" in schema or schema.get("enum"):
        return schema.get("const", (schema.get("enum") or [None])[0])
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return sample(option, name)
    if schema.get("reads") == "point" or name in COORDINATES:
        return list(_POINT)
    kind = schema.get("type", "string")
    if kind == "array":
        return _array(schema, name)
    if kind == "object":
        return {key: sample(value, key) for key, value in _needed(schema).items()}
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", _SIMPLE[kind]), schema.get("maximum")
        return low if high is None else min(low, high)
    value = _SIMPLE.get(kind, "north")
    if kind == "string":
        value = value.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    return value


def _array(schema: Schema, name: str) -> list[Any]:
    if "prefixItems" in schema:
        return [sample(item) for item in schema["prefixItems"]]
    if schema.get("reads") == "keys" or name == "keys":
        return ["ctrl", "c"]
    return [sample(schema.get("items", {}))] * max(1, schema.get("minItems", 1))


def _described(space: ActionSpace) -> Schema:
    describe = getattr(space, "describe", None)
    described: Schema = describe() if callable(describe) else {}
    return described


def _properties(function: Schema) -> Schema:
    properties: Schema = (function.get("parameters") or {}).get("properties", {})
    return properties


def _shapes(function: Schema, actions: Sequence[Schema]) -> Iterator[Schema]:
    """The function as one action, or each action that it offers, with all arguments if unknown."""
    known = {str(action["name"]): action for action in actions}
    parameters = function.get("parameters") or {}
    verbs = verbs_of(function)
    if not verbs:
        yield parameters
    for verb in verbs:
        properties = {**_properties(function), "action": {"const": verb}}
        yield known.get(verb) or {"properties": properties, "required": list(properties)}


def _both(name: str, shape: Schema) -> Iterator[Call]:
    needed = {key: sample(value, key) for key, value in _needed(shape).items()}
    yield Call(name, needed)
    yield Call(name, {key: sample(v, key) for key, v in shape.get("properties", {}).items()})


def _needed(schema: Schema) -> Schema:
    required = schema.get("required", ())
    return {key: value for key, value in schema.get("properties", {}).items() if key in required}


def _is_point(name: str, value: Any) -> bool:
    numbers = isinstance(value, list) and len(value) == 2
    numeric = numbers and all(isinstance(n, int | float) for n in value)
    return bool(numeric and (name in COORDINATES or "point" in name or "position" in name))
