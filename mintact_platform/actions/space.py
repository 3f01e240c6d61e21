"""The action space of a domain: prompt, parser and coordinate authority in one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mintact_platform.records.task import Task


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed call, coordinates still in the action space's grid.

    Attributes:
        name: function name.
        arguments: JSON values.
        ends: whether the call ends the episode (`terminate`, `stop`).
    """

    name: str
    arguments: Mapping[str, Any]
    ends: bool = False

    def to_json(self) -> dict[str, Any]:
        """`{"name", "arguments"}`."""
        return {"name": self.name, "arguments": dict(self.arguments)}


@dataclass(frozen=True, slots=True)
class ParseError:
    """Why a response cannot be used; `message` is shown to the model as an error turn."""

    message: str


@runtime_checkable
class ActionSpace(Protocol):
    """What every action space offers. Built from keyword-only parameters (e.g. `prompt="short"`).

    Optional: `describe() -> dict` says the space in JSON values, from which a client that lacks
    the plugin builds its equal (`described.described_space`).

    Attributes:
        name: registered name.
        domain: `mobile`, `desktop`, `web` or `tools`.
    """

    name: str
    domain: str

    def system_prompt(self, task: Task, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The domain's system prompt; `tools` are the callable tools' schemas (`tool_use`)."""
        ...

    def parse(
        self, text: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Call, ...] | ParseError:
        """Read a response (without end-of-turn token), tolerantly; refuse foreign actions."""
        ...

    def to_pixels(self, call: Call, width: int, height: int) -> Call:
        """The call with coordinates as integer pixels of the screenshot, clamped into it."""
        ...

    def to_grid(self, call: Call, width: int, height: int) -> Call:
        """The inverse of `to_pixels`, for demonstrations and recorded human actions."""
        ...

    def render(self, thought: str, call: Call) -> str:
        """The response text a demonstrator would write: thinking, then the call."""
        ...

    def observation_text(self, text: str) -> str:
        """How an environment's text is shown to the model (e.g. wrapped as a tool response)."""
        ...
