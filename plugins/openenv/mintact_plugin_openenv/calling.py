"""From an OpenEnv server's action schema to callable tools, and from a call back to an action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

_OURS = "metadata"
"""A field that every OpenEnv action has and no agent needs."""


def act_tool(schema: Mapping[str, Any], name: str, fixed: Mapping[str, Any]) -> Schema:
    """The one tool of a server that takes actions of one schema.

    Args:
        schema: of its action.
        name: of the tool.
        fixed: fields that the agent does not choose.
    """
    hidden = {_OURS, *fixed}
    fields = schema.get("properties")
    properties = {k: v for k, v in (fields or {}).items() if k not in hidden}
    parameters = {
        **{key: value for key, value in schema.items() if key not in ("title", "description")},
        "type": "object",
        "properties": _untitled(properties),
        "required": [field for field in schema.get("required") or () if field not in hidden],
    }
    return _function(name, str(schema.get("description") or "Take one action."), parameters)


def is_tool_call(schema: Mapping[str, Any]) -> bool:
    """Whether the server's action is the call of a tool that it lists itself.

    That is so for OpenEnv's environments of the Model Context Protocol, whose action is
    `CallToolAction` or the bare `Action`.
    """
    fields = set(schema.get("properties") or ()) - {_OURS}
    return not fields or {"type", "tool_name"} <= fields


def listed_tools(answer: Mapping[str, Any]) -> list[Schema]:
    """The tools of a `tools/list` answer.

    Raises:
        ValueError: it lists none.
    """
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, Mapping) else None
    if not isinstance(tools, list):
        error = answer.get("error")
        said = error.get("message") if isinstance(error, Mapping) else None
        raise ValueError(str(said or "no list of tools"))
    return [_listed(tool) for tool in tools if isinstance(tool, Mapping) and tool.get("name")]


def names(tools: Sequence[Schema]) -> list[str]:
    """What the tools are called."""
    return [str(tool["function"]["name"]) for tool in tools]


def tool_call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The action that calls a listed tool."""
    return {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}


def _listed(tool: Mapping[str, Any]) -> Schema:
    # the key depends on the version of the server's library
    schema = tool.get("inputSchema") or tool.get("input_schema") or {}
    parameters = {"type": "object", "properties": {}, **schema}
    parameters.pop("title", None)
    properties = _untitled(parameters["properties"])
    description = str(tool.get("description") or "")
    return _function(str(tool["name"]), description, {**parameters, "properties": properties})


def _function(name: str, description: str, parameters: Mapping[str, Any]) -> Schema:
    described = " ".join(description.split())
    function = {"name": name, "description": described, "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def _untitled(properties: Any) -> dict[str, Any]:
    """Fields without the titles that pydantic derives from their names: a prompt is dear."""
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: {k: v for k, v in field.items() if k != "title"} if isinstance(field, dict) else field
        for name, field in properties.items()
    }
