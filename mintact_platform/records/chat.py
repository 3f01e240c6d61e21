"""What a rollout keeps of a conversation in messages: usage, cost and, if asked for, logprobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counts them, and what they cost.

    Attributes:
        prompt_tokens: of requests, cached ones included.
        cached_tokens: of these, served from the endpoint's cache.
        completion_tokens: of replies, hidden thinking included.
        cost: in the currency of the prices given; None without prices.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Both together; unknown costs count nothing beside known ones."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            sum(costs) if costs else None,
        )

    def __str__(self) -> str:
        spent = "" if self.cost is None else f", cost {self.cost:.4f}"
        cached = f" ({self.cached_tokens} cached)" if self.cached_tokens else ""
        return f"{self.prompt_tokens} tokens in{cached}, {self.completion_tokens} out{spent}"


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """One reply, beside its text, which its turn holds.

    Attributes:
        model: that answered, as the endpoint names it.
        finish: why it ended, as the endpoint says.
        usage: of the request and the reply.
        attempts: requests it took.
        logprobs: `(token, log-probability)` of each token, None where not asked for.
    """

    model: str
    finish: str
    usage: Usage
    attempts: int = 1
    logprobs: tuple[tuple[str, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """A rollout's conversation through a message engine.

    Attributes:
        replies: in order; those that could not be used are among them.
    """

    replies: tuple[ReplyRecord, ...] = ()

    @property
    def usage(self) -> Usage:
        """Of all replies together."""
        return sum((reply.usage for reply in self.replies), Usage())

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> ChatRecord | None:
        """Read a record; None stays None."""
        return None if values is None else cls(tuple(map(_reply, values["replies"])))


def _reply(values: Mapping[str, Any]) -> ReplyRecord:
    logprobs = values["logprobs"]
    return ReplyRecord(
        **{
            **values,
            "usage": Usage(**values["usage"]),
            "logprobs": None if logprobs is None else tuple((t, p) for t, p in logprobs),
        }
    )
