"""What an environment's state check says, and what a judge says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Label = Literal["success", "failure", "environment_failure", "abstain"]


@dataclass(frozen=True, slots=True)
class StateCheck:
    """The environment's own reading of its final state, outside the agent's reach.

    Attributes:
        success: whether the goal state holds.
        score: partial credit in [0, 1].
        details: what was compared; JSON values.
    """

    success: bool
    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer. `abstain` and `environment_failure` carry no reward and mask the rollout.

    Attributes:
        label: `success`, `failure`, `environment_failure` or `abstain`.
        reward: finite number for the first two labels, None for the others.
        components: named parts of the reward.
        turn_rewards: one number a turn, where the judge gives them.
        reason: one line for people.
        judge: the judge's registered name.
        seconds: wall time spent.
        cost: in the judge's currency, if it has one.
    """

    label: Label
    reward: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    turn_rewards: tuple[float, ...] | None = None
    reason: str = ""
    judge: str = ""
    seconds: float = 0.0
    cost: float | None = None

    def __post_init__(self) -> None:
        if self.label not in ("success", "failure", "environment_failure", "abstain"):
            raise ValueError(f"unknown verdict label {self.label!r}")
        if self.label in ("success", "failure"):
            if self.reward is None or not math.isfinite(self.reward):
                raise ValueError(f"a {self.label!r} verdict needs a finite reward")
        elif self.reward is not None:
            raise ValueError(f"a {self.label!r} verdict carries no reward, got {self.reward!r}")

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Verdict:
        """Read a verdict."""
        turns = values.get("turn_rewards")
        return cls(**{**values, "turn_rewards": None if turns is None else tuple(turns)})
