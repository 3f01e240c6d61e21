"""The domains' system prompts: function signatures from pydantic models, in a full or a short form.

The full form is the `# Tools` layout that Qwen models were trained on, with one JSON signature a
line. The short form names functions and actions only; tiny models are trained on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from mintact_platform.actions.arguments import Action
from mintact_platform.actions.parse import CLOSE, OPEN
from mintact_platform.actions.space import Call

Form = Literal["full", "short"]

CALL = f'{OPEN}{{"name": "<function>", "arguments": {{<arguments>}}}}{CLOSE}'


def action_name(action: type[Action]) -> str:
    """The literal value of a model's `action` field."""
    return str(action.model_json_schema()["properties"]["action"]["const"])


def action_schema(action: type[Action]) -> dict[str, Any]:
    """One action as JSON schema, without titles; `described.action_model` reads it back."""
    schema = action.model_json_schema()
    fields = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema["properties"].items()
    }
    return {
        "name": action_name(action),
        "description": schema["description"],
        "properties": fields,
        "required": schema.get("required", []),
    }


def function_schema(name: str, description: str, actions: Sequence[type[Action]]) -> dict[str, Any]:
    """One function for a whole domain: an `action` to choose, and every action's arguments.

    Only `action` is required by the schema; which arguments an action needs is said in words and
    checked when a call is read.
    """
    properties: dict[str, dict[str, Any]] = {}
    users: dict[str, list[str]] = {}
    lines = []
    for action in actions:
        schema = action.model_json_schema()
        verb = action_name(action)
        required = [f for f in schema.get("required", ()) if f != "action"]
        needs = f" Needs {' and '.join(f'`{f}`' for f in required)}." if required else ""
        lines.append(f"* `{verb}`: {schema['description']}{needs}")
        for field, value in schema["properties"].items():
            if field != "action":
                properties.setdefault(field, _property(value))
                users.setdefault(field, []).append(verb)
    for field, value in properties.items():
        told = f"{value.get('description', '')} Used by {', '.join(users[field])}."
        value["description"] = told.strip()
    choice = {
        "type": "string",
        "enum": [action_name(action) for action in actions],
        "description": "\n".join(lines),
    }
    parameters = {
        "type": "object",
        "properties": {"action": choice, **properties},
        "required": ["action"],
    }
    return tool_schema(name, description, parameters)


def tool_schema(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A function's signature in the form chat models are shown."""
    function = {"name": name, "description": description, "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def tools_block(schemas: Iterable[Mapping[str, Any]]) -> str:
    """`<tools>` with one JSON signature a line."""
    lines = (json.dumps(schema, ensure_ascii=False) for schema in schemas)
    return "\n".join(("<tools>", *lines, "</tools>"))


def full_prompt(schemas: Iterable[Mapping[str, Any]], rules: Sequence[str]) -> str:
    """The long form: signatures, how to call, how to respond."""
    return "\n".join(
        (
            "# Tools",
            "",
            "These functions are at your disposal, one JSON signature a line:",
            tools_block(schemas),
            "",
            "Call a function by writing its name and arguments as JSON between tags:",
            CALL,
            "",
            "# Response format",
            "",
            *(f"- {rule}" for rule in rules),
        )
    )


def short_prompt(title: str, function: str, names: Iterable[str]) -> str:
    """The short form, such as `Phone. mobile_use: click, type, swipe, terminate` and a period."""
    head = f"{title}. {function}: " if function else f"{title}. "
    return f"{head}{', '.join(names)}."


def render_call(thought: str, call: Call) -> str:
    """The response text of a thought and a call."""
    body = json.dumps(call.to_json(), ensure_ascii=False)
    return f"<think>{thought}</think>{OPEN}{body}{CLOSE}"


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A field's schema without what the model needs not: titles, defaults, null alternatives."""
    unsaid = ("title", "default", "anyOf", "reads")
    kept = {k: v for k, v in schema.items() if k not in unsaid}
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            kept = {**_property(option), **kept}
    return kept
