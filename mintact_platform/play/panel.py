"""What a person can press: one form an action, made from what the action space says of itself.

A space of one's own that says nothing (no `describe`) leaves the box in which the response is
written out as a model would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mintact_platform.actions.arguments import COORDINATES
from mintact_platform.actions.space import ActionSpace

GESTURES = {
    "click": ("click", "left_click", "tap"),
    "double": ("double_click",),
    "right": ("right_click",),
    "middle": ("middle_click",),
    "hold": ("long_press",),
    "drag": ("swipe", "drag", "left_click_drag"),
}
"""What the mouse does on the screenshot: the first of these actions that the space has."""

_SIMPLE = ("string", "number", "integer", "boolean")


def panel(space: ActionSpace, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The actions and tools that can be used now, as JSON values for the page.

    Args:
        space: the action space.
        tools: schemas of the callable tools.
    """
    describe = getattr(space, "describe", None)
    said = describe() if callable(describe) else {}
    actions = list(_actions(said, tools))
    known = {action["title"] for action in actions}
    gestures = {
        gesture: next((name for name in names if name in known), None)
        for gesture, names in GESTURES.items()
    }
    points = any(f["kind"] == "point" for action in actions for f in action["fields"])
    return {"actions": actions, "gestures": gestures, "grid": said.get("grid"), "points": points}


def _actions(
    said: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """One function with an `action` to choose, or callable tools, the environment's first."""
    for action in said.get("actions", ()):
        verb = {"action": action["name"]}
        yield _form(said["name"], action["name"], action, verb)
    if said.get("style") == "tools":
        offered = {f["name"]: f for f in map(_function, tools)}
        own = {f["name"]: f for f in said.get("functions", ()) if f["name"] not in offered}
        for name, function in (offered | own).items():
            schema = {**function, **(function.get("parameters") or {})}
            yield _form(name, name, {**schema, "description": function.get("description")}, {})


def _form(
    name: str, title: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """A form: what is sent whatever is typed, and the fields to type into."""
    required = set(schema.get("required") or ())
    fields = [
        {**_field(key, value), "required": key in required}
        for key, value in (schema.get("properties") or {}).items()
        if key not in arguments
    ]
    return {
        "name": name,
        "title": title,
        "description": schema.get("description") or "",
        "arguments": dict(arguments),
        "fields": sorted(fields, key=lambda field: not field["required"]),
    }


def _field(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(value)
    options = flat.get("enum", [flat["const"]] if "const" in flat else None)
    if options is not None:
        kind = "choice"
    elif flat.get("reads") == "point" or name in COORDINATES:
        kind = "point"
    elif flat.get("reads") == "keys":
        kind = "keys"
    else:
        kind = str(flat["type"]) if flat.get("type") in _SIMPLE else "json"
    return {
        "name": name,
        "kind": kind,
        "description": str(flat.get("description", "")),
        "options": options,
        "minimum": flat.get("minimum"),
        "maximum": flat.get("maximum"),
    }


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """A property's schema with its first real alternative taken in."""
    flat = {key: item for key, item in value.items() if key != "anyOf"}
    for option in value.get("anyOf", ()):
        if option.get("type") != "null":
            return {**_flat(option), **flat}
    return flat


def _function(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    function: Mapping[str, Any] = schema.get("function", schema)
    return function
