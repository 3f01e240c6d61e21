"""Faults on demand, so that every recovery of the platform can be seen at work."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval

Fault = Literal["crash", "error", "hang", "slow", "garbage", "reset_crash"]
"""The process dies · step raises · step never returns · step takes a second more · the screenshot
is none · the process dies at reset."""

Scope = Literal["task", "reset"]

Steps = Annotated[int, Interval(ge=0, le=10**6)]

SLOW_S = 1.0


@dataclass
class Faults:
    """Which episodes go wrong, how, and when.

    Attributes:
        kind: what happens; None for never.
        rate: share of the episodes that are hit; the others are untouched.
        after: steps that still work in an episode that is hit.
        scope: `task` draws from the episode's seed, so that a task always meets the same fate,
            also in a retry; `reset` draws anew at every reset.
    """

    kind: Fault | None = None
    rate: float = 1.0
    after: int = 1
    scope: Scope = "task"
    _hit: bool = False
    _steps: int = 0

    def begin(self, seed: int) -> None:
        """Decide the fate of an episode; dies here for `reset_crash`."""
        draw = random.Random(f"fault:{seed}" if self.scope == "task" else None).random()
        self._hit, self._steps = self.kind is not None and draw < self.rate, 0
        if self._hit and self.kind == "reset_crash":
            _crash()

    def step(self) -> Fault | None:
        """The fault of this step, None for none; dies or raises here for `crash` and `error`."""
        self._steps += 1
        if not self._hit or self._steps <= self.after:
            return None
        if self.kind == "crash":
            _crash()
        if self.kind == "error":
            raise RuntimeError("injected fault: step raises")
        return self.kind


def spoiled(observation: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
    """The observation, or under `garbage` one whose screenshot is no picture."""
    return {**observation, "screenshot": np.zeros(3)} if fault == "garbage" else observation


def _crash() -> None:
    """End the process at once, as a segmentation fault would."""
    os._exit(70)
