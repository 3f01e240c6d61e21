"""How a simulated run went, and how fast it could have gone at best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mintact_platform.scheduler.simulation.assumptions import Assumptions, informative_share
from mintact_platform.scheduler.simulation.journal import MemoryJournal
from mintact_platform.scheduler.simulation.world import Step, World


@dataclass(frozen=True, slots=True)
class DomainResult:
    """A domain's groups over a run; counts, and shares of time.

    Attributes:
        trained: groups in batches.
        accepted: entered the queue.
        filtered: refused for uniform rewards.
        dropped: failed.
        evicted: lost because the queue was full.
        stale: lost because they came too late.
        share: of all that was trained.
        stale_share: of what was accepted.
        idle: share of its producers' time they stood still.
    """

    trained: int
    accepted: int
    filtered: int
    dropped: int
    evicted: int
    stale: int
    share: float
    stale_share: float
    idle: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a simulated run went; times in seconds.

    Attributes:
        steps: trainer steps taken.
        seconds: until the end of the last one.
        stuck: whether it stood still before: trainer and producers waited for each other.
        domains: by name.
        relaxed: steps off the quotas.
        trainer_idle: share of the time the trainer waited for a batch.
        wait: a batch's latency, seconds the trainer waited for it: median and 95th percentile.
        age: seconds a trained group lay in the queue: median and 95th percentile.
        versions: mean weight versions between a trained group and the deployed weights.
        down: seconds lost to kills.
        events: of the simulation.
        binding: what limits the steady state: `trainer`, `active` or a domain.
        bounds: steps an hour that the trainer, each domain and all slots could sustain alone.
        timeline: one entry a step.
    """

    steps: int
    seconds: float
    stuck: bool
    domains: Mapping[str, DomainResult]
    relaxed: int
    trainer_idle: float
    wait: tuple[float, float]
    age: tuple[float, float]
    versions: float
    down: float
    events: int
    binding: str
    bounds: Mapping[str, float]
    timeline: Sequence[Step]

    @property
    def wasted(self) -> float:
        """Share of accepted groups that were lost."""
        lost = sum(domain.evicted + domain.stale for domain in self.domains.values())
        return lost / max(1, sum(domain.accepted for domain in self.domains.values()))

    @property
    def stale(self) -> float:
        """Share of accepted groups that came too late."""
        lost = sum(domain.stale for domain in self.domains.values())
        return lost / max(1, sum(domain.accepted for domain in self.domains.values()))

    @property
    def steps_per_hour(self) -> float:
        """Trainer steps an hour, time lost to kills left out."""
        return 3600 * self.steps / (self.seconds - self.down) if self.seconds else 0.0

    @property
    def of_bound(self) -> float:
        """Steps an hour as a share of what the binding resource could sustain."""
        limit = self.bounds[self.binding]
        return self.steps_per_hour / limit if limit else math.inf

    def to_json(self) -> dict[str, Any]:
        """Everything but the timeline."""
        return {
            "steps": self.steps,
            "hours": self.seconds / 3600,
            "stuck": self.stuck,
            "steps_per_hour": self.steps_per_hour,
            "bound": self.bounds[self.binding],
            "bounds": dict(self.bounds),
            "binding": self.binding,
            "trainer_idle": self.trainer_idle,
            "wasted": self.wasted,
            "stale": self.stale,
            "relaxed": self.relaxed,
            "batch_wait_seconds": {"p50": self.wait[0], "p95": self.wait[1]},
            "queue_seconds": {"p50": self.age[0], "p95": self.age[1]},
            "versions_behind": self.versions,
            "down_seconds": self.down,
            "events": self.events,
            "domains": {
                name: {key: getattr(domain, key) for key in DomainResult.__slots__}
                for name, domain in self.domains.items()
            },
        }


def result_of(world: World, journal: MemoryJournal, *, stuck: bool) -> Simulation:
    """Add up a world that has run."""
    world.close()
    totals, now = world.totals, max(world.now - world.totals.down, 1e-9)
    limits = bounds(world.assumptions)
    batched = sum(journal.counts[name]["trained"] for name in journal.counts) or 1
    ages = sum(age * count for age, count in totals.versions.items())
    return Simulation(
        steps=world.steps_done,
        seconds=world.now,
        stuck=stuck,
        domains={name: _domain(world, journal, name, batched, now) for name in journal.counts},
        relaxed=sum(step.relaxed for step in totals.steps),
        trainer_idle=totals.waited / now,
        wait=spread([step.formed_at - step.asked_at for step in totals.steps]),
        age=spread(totals.ages),
        versions=ages / max(1, totals.versions.total()),
        down=totals.down,
        events=totals.events,
        binding=min(limits, key=lambda name: limits[name]),
        bounds=limits,
        timeline=totals.steps,
    )


def _domain(
    world: World, journal: MemoryJournal, name: str, batched: int, now: float
) -> DomainResult:
    counts, accepted = journal.counts[name], journal.accepted[name]
    slots = world.assumptions.domains[name].producers * now
    return DomainResult(
        trained=counts["trained"],
        accepted=accepted,
        filtered=counts["filtered"],
        dropped=counts["dropped"],
        evicted=counts["evicted"],
        stale=counts["stale"],
        share=counts["trained"] / batched,
        stale_share=counts["stale"] / max(1, accepted),
        idle=max(0.0, 1 - world.totals.worked[name] / slots),
    )


def bounds(assumptions: Assumptions) -> dict[str, float]:
    """Steps an hour that the trainer, each domain and the shared slots could sustain alone.

    Rates that change with the steps enter with their mean over the run.
    """
    trainer = assumptions.trainer
    tokens = sum(domain.quota * domain.tokens for domain in assumptions.domains.values())
    seconds = trainer.seconds + trainer.seconds_per_token * tokens
    seconds += trainer.push_seconds / assumptions.sync.every
    if trainer.evaluation_every:
        seconds += trainer.evaluation_seconds / trainer.evaluation_every
    limits = {"trainer": 3600 / seconds}
    if assumptions.schedule.fill == "fifo":
        return {**limits, "producers": _any_groups(assumptions)}
    slot_seconds = 0.0
    for name, domain in assumptions.domains.items():
        cost = _producer_seconds(assumptions, name)
        if domain.quota:
            limits[name] = 3600 * domain.producers / cost if cost < math.inf else 0.0
            slot_seconds += cost
    if assumptions.active is not None and slot_seconds:
        limits["active"] = 3600 * assumptions.active / slot_seconds
    return limits


def _any_groups(assumptions: Assumptions) -> float:
    """Steps an hour where a batch takes groups of any domain."""
    rate = 0.0
    for name, domain in assumptions.domains.items():
        if domain.quota:
            rate += domain.quota * domain.producers / _producer_seconds(assumptions, name)
    return 3600 * rate / assumptions.batch_groups


def _producer_seconds(assumptions: Assumptions, name: str) -> float:
    """Seconds of one producer for a domain's part of a mean batch."""
    domain, steps = assumptions.domains[name], assumptions.steps
    rates = [
        informative_share(domain, assumptions.group_size, step * steps / 20) for step in range(21)
    ]
    if min(rates) <= 0 or domain.failures >= 1:
        return math.inf
    tries = sum(1 / rate for rate in rates) / len(rates)
    return domain.quota * domain.seconds * tries / (1 - domain.failures)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile; zeros of nothing."""
    ordered = sorted(values)
    if not ordered:
        return 0.0, 0.0
    return ordered[len(ordered) // 2], ordered[int(0.95 * (len(ordered) - 1))]
