"""How a rollout ended: one enumeration, used everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a rollout ended. Only the first four count for learning; the rest are masked."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    CONTEXT_OVERFLOW = "context_overflow"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_FAILURE = "environment_failure"
    MODEL_FAILURE = "model_failure"
    JUDGE_FAILURE = "judge_failure"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERNAL_FAILURE = "internal_failure"

    @property
    def counts(self) -> bool:
        """Whether the rollout shows the agent's own behaviour, and so may be learned from."""
        return self in _COUNTING


_COUNTING = frozenset(
    {Outcome.COMPLETED, Outcome.MAX_TURNS, Outcome.CONTEXT_OVERFLOW, Outcome.AGENT_ERROR}
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a rollout is masked, attributed to the phase and the instance where it happened.

    Attributes:
        phase: `acquire`, `create`, `reset`, `generate`, `step`, `evaluate`, `close` or `judge`.
        kind: the exception's type, or the kind the far side named.
        message: one line.
        log_tail: last lines of the failing process, if any.
        instance: environment instance or model server, if known.
    """

    phase: str
    kind: str
    message: str
    log_tail: str = ""
    instance: str = ""

    def to_json(self) -> dict[str, Any]:
        """The failure as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Failure | None:
        """Read a failure; None stays None."""
        return None if values is None else cls(**values)
