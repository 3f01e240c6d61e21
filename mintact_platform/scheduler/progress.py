"""Where a run stands at one moment, and the display that is told so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DomainSnapshot:
    """One domain at one moment. Groups are counted since the run began, restarts included.

    Attributes:
        quota: groups of this domain in a batch.
        leases: environments leased now.
        in_flight: groups being rolled out now.
        queued: groups waiting for a batch now.
        accepted: groups that entered the queue.
        trained: groups the trainer has learned from.
        filtered: groups refused for uniform rewards.
        evicted: groups pushed out of a full queue.
        stale: groups too old for a batch.
        dropped: groups with too few live rollouts.
        success: share of recent live rollouts that succeeded, None before the first.
        turns: mean turns of recent rollouts, None before the first.
        masked: share of recent rollouts that were masked, None before the first.
    """

    quota: int = 0
    leases: int = 0
    in_flight: int = 0
    queued: int = 0
    accepted: int = 0
    trained: int = 0
    filtered: int = 0
    evicted: int = 0
    stale: int = 0
    dropped: int = 0
    success: float | None = None
    turns: float | None = None
    masked: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    Attributes:
        name: of the run.
        step: trainer steps done.
        steps: trainer steps asked for.
        version: weight version that the model servers serve.
        seconds: since the run began.
        domains: by domain name, in the run file's order.
        trainer_idle: share of time the trainer waited for a batch, None before the first step.
        rollouter_idle: share of time no rollout could start, None before it is known.
        loss: of the last step.
        tokens_per_second: sampled by the model servers lately.
        phase: what the run is doing, e.g. `training`, `pushing weights`, `evaluating`.
    """

    name: str
    step: int
    steps: int
    version: int = 0
    seconds: float = 0.0
    domains: Mapping[str, DomainSnapshot] = field(default_factory=dict)
    trainer_idle: float | None = None
    rollouter_idle: float | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    phase: str = ""


class Display(Protocol):
    """Where a run's progress goes. Calls are cheap and come from the event loop."""

    def update(self, snapshot: Snapshot) -> None:
        """Show this moment in place of the last one."""
        ...

    def message(self, line: str) -> None:
        """Show a line that stays."""
        ...

    def close(self) -> None:
        """Stop drawing; safe to call twice."""
        ...
