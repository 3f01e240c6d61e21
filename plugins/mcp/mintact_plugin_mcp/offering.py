"""Which of the servers' tools an agent is offered, and under which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from mcp.types import Tool

SEPARATOR = "__"
"""Between a server's name and a tool's, where the name alone would not do."""

_TAKEN = frozenset(("terminate", "answer", "search_tool"))
"""Names that mean something to the action space."""


@dataclass(frozen=True)
class Choice:
    """Which tools are offered.

    Attributes:
        allow: patterns of names, of which one must fit; None allows all.
        deny: patterns of names, of which none may fit.
        hidden: names of tools that only a task's set-up and check may call.
    """

    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    hidden: frozenset[str] = field(default_factory=frozenset)

    def offers(self, name: str) -> bool:
        """Whether a tool of this name is offered."""
        if name in self.hidden or _fits(name, self.deny):
            return False
        return self.allow is None or _fits(name, self.allow)


@dataclass(frozen=True)
class Offer:
    """A tool of a server under the name that the agent uses.

    Attributes:
        server: name of the server.
        tool: as the server lists it.
    """

    server: str
    tool: Tool


def named(listed: Mapping[str, Sequence[Tool]]) -> dict[str, Offer]:
    """All tools by the agent's name for them: with the server's before it if there are several."""
    offers: dict[str, Offer] = {}
    for server, tools in listed.items():
        for tool in tools:
            plain = len(listed) == 1 and tool.name not in _TAKEN
            name = tool.name if plain else f"{server}{SEPARATOR}{tool.name}"
            offers.setdefault(name, Offer(server, tool))
    return offers


def schema(name: str, tool: Tool) -> dict[str, Any]:
    """The tool's signature as an action space takes it."""
    parameters = {"type": "object", "properties": {}, **tool.input_schema}
    parameters.pop("title", None)
    properties = parameters["properties"]
    if isinstance(properties, Mapping):
        # titles that a server derives from the names of fields: a prompt is dear
        parameters["properties"] = {k: _untitled(v) for k, v in properties.items()}
    description = " ".join((tool.description or tool.title or "").split())
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def found(offers: Mapping[str, Offer], query: str) -> str:
    """The tools whose name or description holds most of the words, a line each."""
    words = query.lower().split()
    ranked = []
    for name, offer in offers.items():
        text = f"{name} {offer.tool.description or ''}".lower()
        hits = sum(word in text for word in words)
        if hits or not words:
            ranked.append((-hits, name, " ".join((offer.tool.description or "").split())))
    lines = [f"{name}: {described}" for _, name, described in sorted(ranked)]
    return "\n".join(lines) or "no tool fits these words"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _untitled(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {k: v for k, v in value.items() if k != "title"}
