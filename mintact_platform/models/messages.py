"""Engines that speak messages: text and images in, text and tool calls out, no token ids.

Any endpoint a model is served at can be such an engine: a teacher whose episodes become
demonstrations, or a model to be evaluated. There is nothing in its answers to train on directly:
the tokens it sampled, and their exact log-probabilities, stay with the endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from mintact_platform.models.protocol import ImageFile
from mintact_platform.records.chat import Usage

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call made through the endpoint's own tool interface.

    Attributes:
        id: that its result refers to.
        name: of the function.
        arguments: as the model wrote them: JSON, if it wrote well.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        role: who speaks; `tool` is the result of a call.
        text: of an assistant, verbatim.
        images: shown before the text, as stored files.
        calls: of an assistant that called tools natively.
        call_id: of a `tool` message, whose result it is.
    """

    role: Role
    text: str
    images: tuple[ImageFile, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One reply that is asked for.

    Attributes:
        rid: our own id.
        messages: the whole conversation.
        tools: function schemas, empty unless the engine calls tools natively.
        temperature: 0 is greedy.
        max_new_tokens: budget of the reply.
        seed: for endpoints that take one.
    """

    rid: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    temperature: float
    max_new_tokens: int
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model said.

    Attributes:
        text: verbatim, "" where it only called tools.
        calls: made natively, in order.
        reasoning: thinking that the endpoint gives apart from the text.
        refused: whether the model declined; `text` says how.
        finish: `length` where the budget cut it off.
        model: that answered, as the endpoint names it.
        usage: of request and reply.
        attempts: requests it took.
        logprobs: `(token, log-probability)` of each token; None where not asked for.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    refused: bool = False
    finish: Finish = "stop"
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    attempts: int = 1
    logprobs: tuple[tuple[str, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """What a message engine gets at its start.

    Attributes:
        run_directory: of the run.
        active: upper bound of concurrent requests.
        deadline: seconds until it must be ready.
        reply_deadline: seconds a reply may take, retries included.
    """

    run_directory: Path
    active: int
    deadline: float = 300.0
    reply_deadline: float = 120.0


class MessageEngine(Protocol):
    """A rollout engine that speaks messages. Built from keyword-only parameters, off the network.

    The constructor refuses what is wrong with them; it is called once on trial before a run
    directory is made.

    Attributes:
        speaks: `"messages"`, on the class; it tells such an engine from a `RolloutEngine`.
        native_tools: whether calls go through the endpoint's own tool interface; otherwise they
            are written in the text, as the action space words them.
        model: name of what answers, for people.
        spent: on all replies so far, those among them that could not be used.
    """

    speaks: ClassVar[Literal["messages"]]
    native_tools: bool
    model: str
    spent: Usage

    async def start(self, spec: ChatSpec) -> None:
        """Reach the endpoint; raises ModelServerError where it cannot be used."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask for a reply. Cancelling lets go of the request.

        Raises:
            ModelServerError: there is none, and that is not the model's own doing. Kind
                `context` means that the conversation has become too long for it.
        """
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...


def speaks_messages(engine: object) -> bool:
    """Whether an engine, or its class, speaks messages instead of tokens."""
    return getattr(engine, "speaks", "tokens") == "messages"


def function_schemas(
    description: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """The functions of an action space and those callable now, as chat endpoints take them.

    Args:
        description: what `ActionSpace.describe` returned.
        tools: schemas from the environment; one of the same name overrides the space's own.
    """
    found: dict[str, dict[str, Any]] = {}
    for schema in (*description.get("functions", ()), *tools):
        function = schema.get("function", schema)
        found[str(function["name"])] = {
            "name": str(function["name"]),
            "description": str(function.get("description", "")),
            "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        }
    return tuple({"type": "function", "function": function} for function in found.values())


def native_prompt(description: Mapping[str, Any]) -> str:
    """The system prompt where tools are shown by the endpoint: how to act, and how to end."""
    title = str(description.get("title") or description.get("name", ""))
    ends = ", ".join(f"`{name}`" for name in description.get("ends", ()))
    lines = [
        f"{title}. You act by calling functions, one call a turn.",
        "First think, in a few words: what you are shown, what is left to do. Then make one call.",
    ]
    if ends:
        lines.append(f"When the task is done or cannot be done, use {ends}.")
    return "\n".join(lines)
