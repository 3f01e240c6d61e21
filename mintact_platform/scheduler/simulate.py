"""A run on virtual time: the scheduler's own objects, drawn durations in place of processes."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Batch, Scheduler


@dataclass(frozen=True, slots=True)
class SimulatedDomain:
    """What a domain is like.

    Attributes:
        quota: q_d, groups in a batch.
        seconds: mean duration of a group, log-normal.
        informative: share of groups that are admitted to the queue.
        producers: groups it can have in flight.
        sigma: of the logarithm of the duration.
    """

    quota: int
    seconds: float
    informative: float
    producers: int
    sigma: float = 0.6


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a simulated run went. Counts are groups by domain, times seconds.

    Attributes:
        steps: trainer steps taken.
        seconds: until the end of the last one.
        batched: trained on.
        accepted: ever accepted into the queue.
        evicted: lost because the queue was full.
        stale: lost because they came too late.
        relaxed: steps off the quotas.
        trainer_idle: share of the time the trainer waited for a batch.
        producer_idle: share of the producers' time they stood still, by domain.
        binding: what limits the steady state, `trainer` or a domain.
        bounds: steps an hour that the trainer, and each domain, could sustain alone.
    """

    steps: int
    seconds: float
    batched: Mapping[str, int]
    accepted: Mapping[str, int]
    evicted: Mapping[str, int]
    stale: Mapping[str, int]
    relaxed: int
    trainer_idle: float
    producer_idle: Mapping[str, float]
    binding: str
    bounds: Mapping[str, float]

    @property
    def wasted(self) -> float:
        """Share of accepted groups that were lost."""
        lost = sum(self.evicted.values()) + sum(self.stale.values())
        return lost / max(1, sum(self.accepted.values()))

    @property
    def steps_per_hour(self) -> float:
        """Trainer steps an hour."""
        return 3600 * self.steps / self.seconds if self.seconds else 0.0

    def lines(self) -> list[str]:
        """The result in words: pace, idle time, waste and what binds."""
        pace = f"{self.steps_per_hour:.1f} steps an hour, bound by {self.binding}"
        return [
            f"{pace} ({self.bounds[self.binding]:.1f})",
            f"trainer idle {100 * self.trainer_idle:.1f} %, "
            f"wasted {100 * self.wasted:.1f} % of accepted groups, "
            f"{self.relaxed} of {self.steps} steps off the quotas",
            *(
                f"{name}: {100 * self.share(name):.0f} % of the batches, evicted "
                f"{self.evicted[name]}, stale {self.stale[name]}, producers idle "
                f"{100 * self.producer_idle[name]:.0f} %"
                for name in self.batched
            ),
        ]

    def share(self, domain: str) -> float:
        """Share of a domain in what was trained on."""
        return self.batched[domain] / max(1, sum(self.batched.values()))


Kind = Literal["group", "trained", "pushed", "poll"]


@dataclass(slots=True)
class _World:
    """The event loop: producers, one trainer, pushes."""

    domains: Mapping[str, SimulatedDomain]
    scheduler: Scheduler
    train_seconds: float
    push_seconds: float
    active: int | None
    random: random.Random
    now: float = 0.0
    training: bool = False
    waiting_since: float = 0.0
    waited: float = 0.0
    relaxed: int = 0
    events: list[tuple[float, int, Kind, str]] = field(default_factory=list)
    begun: dict[str, tuple[str, float, int]] = field(default_factory=dict)
    worked: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    polled: float | None = None

    def run(self, steps: int, limit: float) -> None:
        self._advance()
        while self.events and self.scheduler.steps_done < steps:
            time, _, kind, what = heapq.heappop(self.events)
            if time > limit:
                self.now = limit
                return
            self.now = time
            if kind == "group":
                self._end_group(what)
            elif kind == "trained":
                self._end_step()
            elif kind == "pushed":
                self.scheduler.pushed(self.scheduler.version + 1)
                self._free_trainer()
            self._advance()

    def _advance(self) -> None:
        if not self.training:
            batch = self.scheduler.form_batch(self.now)
            if batch is not None and batch.groups:
                self._begin_step(batch)
        while (domain := self.scheduler.next_domain(self.now, busy=self._busy())) is not None:
            self._begin_group(domain)
        at = self.scheduler.relaxes_at
        if at is not None and at > self.now and at != self.polled:
            self.polled = at
            self._at(at, "poll")

    def _busy(self) -> set[str]:
        in_flight = Counter(domain for domain, _, _ in self.begun.values())
        if self.active is not None and len(self.begun) >= self.active:
            return set(self.domains)
        return {name for name, d in self.domains.items() if in_flight[name] >= d.producers}

    def _begin_group(self, name: str) -> None:
        domain = self.domains[name]
        # the mean of a log-normal is exp(μ + σ²/2)
        mu = math.log(domain.seconds) - domain.sigma**2 / 2
        id = f"{next(self.numbers):09d}"
        self.begun[id] = (name, self.now, self.scheduler.version)
        self.scheduler.group_started(id, name)
        self._at(self.now + self.random.lognormvariate(mu, domain.sigma), "group", id)

    def _end_group(self, id: str) -> None:
        name, since, version = self.begun.pop(id)
        self.worked[name] += self.now - since
        informative = self.random.random() < self.domains[name].informative
        group = QueuedGroup(id, name, version, (), self.now) if informative else None
        self.scheduler.group_finished(id, group, self.now)

    def _begin_step(self, batch: Batch) -> None:
        self.waited += self.now - self.waiting_since
        self.relaxed += batch.relaxed
        self.training = True
        self._at(self.now + self.train_seconds, "trained")

    def _end_step(self) -> None:
        self.scheduler.step_done(self.scheduler.step)
        if self.scheduler.push_due:
            self._at(self.now + self.push_seconds, "pushed")
        else:
            self._free_trainer()

    def _free_trainer(self) -> None:
        self.training, self.waiting_since = False, self.now

    def _at(self, time: float, kind: Kind, what: str = "") -> None:
        heapq.heappush(self.events, (time, next(self.numbers), kind, what))


def simulate(
    domains: Mapping[str, SimulatedDomain],
    scheduler: Scheduler,
    *,
    train_seconds: float,
    steps: int = 150,
    push_seconds: float = 0.0,
    active: int | None = None,
    seed: int = 0,
    limit: float = math.inf,
) -> Simulation:
    """Run a scheduler against drawn group durations until so many steps are trained.

    Args:
        domains: as in the scheduler.
        scheduler: a fresh one.
        train_seconds: of one trainer step.
        steps: trainer steps.
        push_seconds: of one push; the trainer waits for it.
        active: groups in flight over all domains; None leaves it to each domain's producers.
        seed: of the durations and rewards.
        limit: virtual seconds after which it stops.
    """
    world = _World(domains, scheduler, train_seconds, push_seconds, active, random.Random(seed))
    world.run(steps, limit)
    if not world.training:
        world.waited += world.now - world.waiting_since
    for name, since, _ in world.begun.values():
        world.worked[name] += world.now - since
    status, now = scheduler.status(world.now), max(world.now, 1e-9)
    limits = bounds(domains, train_seconds=train_seconds, active=active)
    return Simulation(
        steps=scheduler.steps_done,
        seconds=world.now,
        batched={name: counts["batched"] for name, counts in status.items()},
        accepted={name: counts["accepted"] for name, counts in status.items()},
        evicted={name: counts["evicted"] for name, counts in status.items()},
        stale={name: counts["stale"] for name, counts in status.items()},
        relaxed=world.relaxed,
        trainer_idle=world.waited / now,
        producer_idle={n: 1 - world.worked[n] / (d.producers * now) for n, d in domains.items()},
        binding=min(limits, key=lambda name: limits[name]),
        bounds=limits,
    )


def bounds(
    domains: Mapping[str, SimulatedDomain], *, train_seconds: float, active: int | None = None
) -> dict[str, float]:
    """Steps an hour that the trainer, each domain and the shared slots could sustain alone."""
    limits = {"trainer": 3600 / train_seconds if train_seconds else math.inf}
    slot_seconds = 0.0
    for name, domain in domains.items():
        if domain.quota:
            # seconds of one producer for the domain's part of a batch
            cost = domain.quota * domain.seconds / max(domain.informative, 1e-9)
            limits[name] = 3600 * domain.producers / cost
            slot_seconds += cost
    if active is not None and slot_seconds:
        limits["active"] = 3600 * active / slot_seconds
    return limits
