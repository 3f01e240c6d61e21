"""A request as the body of a chat completion; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.messages import ChatRequest, Message

OURS = frozenset({"model", "messages", "stream", "n", "tools", "logprobs"})
"""Fields that `extra_body` may not set."""


@dataclass(frozen=True)
class Form:
    """What a body says beside the conversation.

    Attributes:
        model: name that the endpoint knows.
        max_tokens_field: how the endpoint calls the budget of a reply.
        logprobs: whether to ask for log-probabilities.
        send_seed: whether to send a seed.
        image_detail: as the endpoint understands it; None says nothing.
        omit: fields not to send.
        extra: further fields; they win over ours but for `OURS`.

    Raises:
        ConfigurationError: `extra` sets what is ours.
    """

    model: str
    max_tokens_field: str = "max_completion_tokens"
    logprobs: bool = False
    send_seed: bool = False
    image_detail: str | None = None
    omit: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.extra:
            if name in OURS:
                raise ConfigurationError(
                    f"extra_body may not set {name!r}",
                    where="rollout.params.extra_body",
                    next="it has a parameter of its own, or is ours to choose",
                )

    def body(self, request: ChatRequest, images: Mapping[str, str]) -> dict[str, Any]:
        """The body.

        Args:
            request: what is asked.
            images: data URL by digest.
        """
        own: dict[str, Any] = {
            "temperature": request.temperature,
            self.max_tokens_field: request.max_new_tokens,
        }
        if self.send_seed and request.seed is not None:
            own["seed"] = request.seed
        if self.logprobs:
            own["logprobs"] = True
        if request.tools:
            own["tools"] = list(request.tools)
            own["parallel_tool_calls"] = False
        kept = {name: value for name, value in own.items() if name not in self.omit}
        messages = [self._message(message, images) for message in request.messages]
        return {**kept, **self.extra, "model": self.model, "messages": messages}

    def _message(self, message: Message, images: Mapping[str, str]) -> dict[str, Any]:
        if message.role == "tool":
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        if message.calls:
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.calls
            ]
            said = message.text or None
            return {"role": "assistant", "content": said, "tool_calls": calls}
        if not message.images:
            return {"role": message.role, "content": message.text}
        parts: list[dict[str, Any]] = [self._image(images[i.digest]) for i in message.images]
        if message.text:
            parts.append({"type": "text", "text": message.text})
        return {"role": message.role, "content": parts}

    def _image(self, url: str) -> dict[str, Any]:
        detail = {} if self.image_detail is None else {"detail": self.image_detail}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
