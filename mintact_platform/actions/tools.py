"""The action space of callable tools, whose signatures come from the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mintact_platform.actions.grid import Grid
from mintact_platform.actions.parse import OPEN, THOUGHT_END, accept, read_calls, sendable
from mintact_platform.actions.prompt import (
    Form,
    full_prompt,
    render_call,
    short_prompt,
    tool_schema,
    tools_block,
)
from mintact_platform.actions.space import Call, ParseError
from mintact_platform.errors import near_match
from mintact_platform.records.task import Task


class ToolUse:
    """Callable tools, whose signatures come from the environment and may change at any turn.

    `terminate` and `answer` are always offered, `search_tool` unless turned off; an environment
    that describes one of them itself overrides the description.

    Args:
        prompt: `full` for pretrained models, `short` for tiny ones.
        grid: kept for symmetry with the other spaces; tools take no screen coordinates.
        search: whether tools are found through `search_tool`.
        plain_text: `answer` takes a response without a call as an answer to the user; `refuse`
            makes it an error turn.
        unlisted: `call` sends a tool that is not listed to the environment, for environments that
            announce tools in their replies only; `refuse` makes it an error turn.
    """

    name, domain, ending = "tool_use", "tools", "terminate"

    def __init__(
        self,
        *,
        prompt: Form = "full",
        grid: int = 999,
        search: bool = True,
        plain_text: Literal["refuse", "answer"] = "refuse",
        unlisted: Literal["refuse", "call"] = "refuse",
    ) -> None:
        self.prompt, self.grid = prompt, Grid(grid)
        self._plain_text, self._unlisted = plain_text, unlisted
        self._own = {n: s for n, s in _OWN_TOOLS.items() if search or n != "search_tool"}

    def describe(self) -> dict[str, Any]:
        """The space as JSON values, from which `described.described_space` builds its equal."""
        return {
            "name": self.name,
            "domain": self.domain,
            "style": "tools",
            "prompt": self.prompt,
            "grid": self.grid.steps,
            "functions": [dict(schema["function"]) for schema in self._own.values()],
            "plain_text": self._plain_text,
            "unlisted": self._unlisted,
            "ends": [self.ending],
        }

    def system_prompt(self, task: Task, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The prompt over the tools callable now; it changes when they do."""
        schemas = self._schemas(tools)
        if self.prompt == "short":
            return short_prompt("Tools", "", [_signature(n, s) for n, s in schemas.items()])
        rules = (
            "First think between <think> and </think>: what is known, what is left to do.",
            "Then write one call.",
            f"When the task is done or cannot be done, call `{self.ending}`.",
        )
        return full_prompt(schemas.values(), rules)

    def tools_message(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """The tools as a message of their own, for contexts whose system prompt must not change."""
        if self.prompt == "short":
            names = [_signature(name, s) for name, s in self._schemas(tools).items()]
            return short_prompt("Tools", "", names)
        return tools_block(self._schemas(tools).values())

    def parse(
        self, text: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Call, ...] | ParseError:
        """Calls up to the one that ends the episode; a tool that is not callable now is refused."""
        known = self._schemas(tools)
        if self._plain_text == "answer" and OPEN not in text:
            words = text.partition(THOUGHT_END)[2] if THOUGHT_END in text else text
            if words.strip() and not words.lstrip().startswith(("{", "[", "```")):
                return (Call("answer", {"text": sendable(words.strip())}),)

        def checked(call: Call) -> Call | ParseError:
            if not call.name or (call.name not in known and self._unlisted == "refuse"):
                hint = near_match(call.name, known)
                return ParseError(f"no tool named {call.name!r} can be called now; {hint}")
            return Call(call.name, call.arguments, ends=call.name == self.ending)

        return accept(read_calls(text), checked)

    def to_pixels(self, call: Call, width: int, height: int) -> Call:
        """The call itself: tools take no screen coordinates."""
        return call

    def to_grid(self, call: Call, width: int, height: int) -> Call:
        """The call itself: tools take no screen coordinates."""
        return call

    def render(self, thought: str, call: Call) -> str:
        """`<think>…</think><tool_call>{…}</tool_call>`."""
        return render_call(thought, call)

    def observation_text(self, text: str) -> str:
        """What a tool returned, marked as such so that it is not taken for the user's words."""
        if not text:
            return ""
        gap = "" if self.prompt == "short" else "\n"
        return f"<tool_response>{gap}{text}{gap}</tool_response>"

    def _schemas(self, tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Signatures by name, in a stable order: our own first, the environment's as it gave."""
        schemas: dict[str, Mapping[str, Any]] = dict(self._own)
        for schema in tools:
            function = schema.get("function", schema)
            schemas[str(function["name"])] = tool_schema(
                str(function["name"]),
                str(function.get("description", "")),
                function.get("parameters") or {"type": "object", "properties": {}},
            )
        return schemas


def _signature(name: str, schema: Mapping[str, Any]) -> str:
    """`name(arguments)`, the short form of a tool from the environment; ours go by name."""
    if name in _OWN_TOOLS:
        return name
    properties = schema["function"]["parameters"].get("properties", {})
    return f"{name}({', '.join(properties)})"


def _one_string(name: str, description: str, field: str, **extra: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {field: {"type": "string", **extra}},
        "required": [field],
    }
    return tool_schema(name, description, parameters)


_OWN_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "search_tool": _one_string(
        "search_tool", "Find tools by words; those found can be called from then on.", "query"
    ),
    "answer": _one_string("answer", "Say something to the user.", "text"),
    "terminate": _one_string(
        "terminate",
        "End the task and say whether it is done.",
        "status",
        enum=["success", "failure"],
    ),
}
