"""Virtual time: producers, one trainer, pushes, failures and kills around a real scheduler."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.simulation.assumptions import (
    Assumptions,
    DomainAssumptions,
    Window,
    informative_share,
    rate_at,
)
from mintact_platform.scheduler.simulation.journal import Journal
from mintact_platform.scheduler.state import Batch, Scheduler
from mintact_platform.storage.ledger import Fate

Kind = Literal["group", "trained", "pushed", "poll", "evaluated", "lost", "kill", "restart"]


class Step(NamedTuple):
    """A batch as the trainer got it.

    Attributes:
        asked_at: when the trainer was free.
        formed_at: when it had the batch.
        queued: groups by domain, just before.
        realised: groups of the batch by domain.
        relaxed: off the quotas.
    """

    asked_at: float
    formed_at: float
    queued: dict[str, int]
    realised: dict[str, int]
    relaxed: bool


@dataclass(slots=True)
class Running:
    """A group in flight."""

    domain: str
    since: float
    version: int
    until: float


@dataclass(slots=True)
class Totals:
    """What adds up over a run; seconds of virtual time."""

    waited: float = 0.0
    down: float = 0.0
    events: int = 0
    worked: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    ages: array[float] = field(default_factory=lambda: array("d"))
    versions: Counter[int] = field(default_factory=Counter)
    steps: list[Step] = field(default_factory=list)


class World:
    """The event loop of a simulated run.

    Args:
        assumptions: durations, rates, windows.
        build: makes a fresh scheduler, at the start and after each kill.
        journal: written before anything acts on it.
        seed: of every draw.
        watch: called after every event, for those who check.

    Attributes:
        now: virtual seconds.
        scheduler: the one that lives.
        totals: what has added up.
    """

    def __init__(
        self,
        assumptions: Assumptions,
        build: Callable[[], Scheduler],
        journal: Journal,
        *,
        seed: int = 0,
        watch: Callable[[World], None] | None = None,
    ) -> None:
        self.assumptions, self.build, self.journal = assumptions, build, journal
        self.random, self.watch = random.Random(seed), watch
        self.scheduler = build()
        self.now = 0.0
        self.totals = Totals()
        self.running: dict[str, Running] = {}
        self._busy: Counter[str] = Counter()
        self._phase: Literal["waiting", "training", "pushing", "evaluating", "down"] = "waiting"
        self._waiting_since = 0.0
        self._batch: Batch | None = None
        self._polled: float | None = None
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Kind, str]] = []
        for at in assumptions.kills:
            self._at(at, "kill")
        for name, domain in assumptions.domains.items():
            for begin, end in domain.outages:
                self._at(begin, "lost", name)
                self._at(end, "poll")
        for _, end in assumptions.pauses:
            self._at(end, "poll")

    def run(self, patience: float = 86_400.0) -> bool:
        """Until the last step or the time limit; false when it stood still before.

        Args:
            patience: seconds the trainer waits for a batch before the run counts as stuck.
        """
        limit = math.inf if self.assumptions.hours is None else 3600 * self.assumptions.hours
        self._advance()
        while self.steps_done < self.assumptions.steps:
            if not self._events:
                return False
            time, _, kind, what = heapq.heappop(self._events)
            if time > limit:
                self.now = limit
                return True
            self.now = time
            self.totals.events += 1
            self._happen(kind, what)
            if self._phase != "down":
                self._advance()
            if self._phase == "waiting" and time - self._waiting_since > patience:
                return False
            if self.watch is not None:
                self.watch(self)
        return True

    def close(self) -> None:
        """Add up what is under way."""
        if self._phase == "waiting":
            self.totals.waited += self.now - self._waiting_since
        for running in self.running.values():
            self.totals.worked[running.domain] += self.now - running.since

    @property
    def steps_done(self) -> int:
        """Trainer steps finished."""
        return self.scheduler.steps_done

    def _happen(self, kind: Kind, what: str) -> None:
        if kind == "group":
            self._end_group(what)
        elif kind == "trained":
            self._end_step()
        elif kind == "pushed":
            self._end_push()
        elif kind == "evaluated":
            self._free_trainer()
        elif kind == "lost":
            for id in [id for id, r in self.running.items() if r.domain == what]:
                self._close(id, "dropped", None, None)
        elif kind == "kill":
            self._kill()
        elif kind == "restart":
            self._restart()

    # ---- what may begin ----

    def _advance(self) -> None:
        if self._phase == "waiting":
            batch = self.scheduler.form_batch(self.now)
            if batch is not None:
                self.journal.moved(batch.stale, "stale")
                if batch.groups:
                    self._begin_step(batch)
        if self._phase != "evaluating" and not _inside(self.now, self.assumptions.pauses):
            gone = {
                name
                for name, domain in self.assumptions.domains.items()
                if domain.outages and _inside(self.now, domain.outages)
            }
            while (domain := self.scheduler.next_domain(self.now, gone, self._full())) is not None:
                self._begin_group(domain)
        at = self.scheduler.relaxes_at
        if at is not None and at > self.now and at != self._polled:
            self._polled = at
            self._at(at, "poll")

    def _full(self) -> set[str]:
        """Domains that cannot begin a group right now but are alive."""
        active, domains = self.assumptions.active, self.assumptions.domains
        if active is not None and len(self.running) >= active:
            return set(domains)
        return {name for name, d in domains.items() if self._busy[name] >= d.producers}

    # ---- groups ----

    def _begin_group(self, name: str) -> None:
        id = f"{next(self._numbers):09d}"
        self.journal.opened(id, name, self.now)
        self.scheduler.group_started(id, name)
        self._run_group(id, name)

    def _run_group(self, id: str, name: str) -> None:
        domain = self.assumptions.domains[name]
        seconds = self._draw(domain.seconds, domain.sigma)
        until = _after(self.now, seconds, self.assumptions.pauses)
        self.running[id] = Running(name, self.now, self.scheduler.version, until)
        self._busy[name] += 1
        self._at(until, "group", id)

    def _end_group(self, id: str) -> None:
        running = self.running.get(id)
        if running is None or running.until != self.now:
            return  # it was lost meanwhile, or killed and begun again
        name = running.domain
        domain = self.assumptions.domains[name]
        if self.random.random() < domain.failures:
            self._close(id, "dropped", None, None)
            return
        informative, reward = self._judge(domain)
        group = QueuedGroup(id, name, running.version, (), self.now) if informative else None
        self._close(id, "queued" if informative else "filtered", group, reward)

    def _judge(self, domain: DomainAssumptions) -> tuple[bool, float]:
        """Whether a group is informative, and the mean reward of its rollouts."""
        step, size = self.scheduler.steps_done, self.assumptions.group_size
        if _inside(self.now, domain.starved):
            return False, 0.0
        if domain.success is None:
            share = informative_share(domain, size, step)
            return self.random.random() < share, 0.5
        p = rate_at(domain.success, step)
        successes = sum(self.random.random() < p for _ in range(size))
        return 0 < successes < size, successes / size

    def _close(self, id: str, fate: Fate, group: QueuedGroup | None, reward: float | None) -> None:
        running = self.running.pop(id)
        self._busy[running.domain] -= 1
        self.totals.worked[running.domain] += self.now - running.since
        self.journal.closed(id, fate, group, self.now, reward)
        changes = self.scheduler.group_finished(id, group, self.now, reward)
        self.journal.moved(changes.evicted, "evicted")

    # ---- the trainer ----

    def _begin_step(self, batch: Batch) -> None:
        self.journal.step_begun(batch, self.scheduler.version)
        totals = self.totals
        totals.waited += self.now - self._waiting_since
        queued = {
            name: self.scheduler.queue.count(name) + batch.realised[name]
            for name in self.assumptions.domains
        }
        totals.steps.append(
            Step(self._waiting_since, self.now, queued, dict(batch.realised), batch.relaxed)
        )
        for group in batch.groups:
            totals.ages.append(self.now - group.accepted_at)
            totals.versions[self.scheduler.version - group.oldest_version] += 1
        self._phase, self._batch = "training", batch
        self._at(self.now + self._step_seconds(batch), "trained")

    def _step_seconds(self, batch: Batch) -> float:
        trainer, domains = self.assumptions.trainer, self.assumptions.domains
        tokens = 0.0
        if trainer.seconds_per_token:
            for group in batch.groups:
                domain = domains[group.domain]
                tokens += self._draw(domain.tokens, domain.sigma) if domain.tokens else 0.0
        seconds = trainer.seconds + trainer.seconds_per_token * tokens
        return self._draw(seconds, trainer.sigma)

    def _end_step(self) -> None:
        self._batch = None
        step = self.scheduler.step
        self.journal.step_done(step)
        self.scheduler.step_done(step)
        if self.scheduler.push_due:
            self._begin_push()
        else:
            self._evaluate()

    def _begin_push(self) -> None:
        self._phase = "pushing"
        self._at(self.now + self.assumptions.trainer.push_seconds, "pushed")

    def _end_push(self) -> None:
        version = self.scheduler.version + 1
        self.journal.pushed(version, self.scheduler.steps_done)
        self.scheduler.pushed(version)
        self._evaluate()

    def _evaluate(self) -> None:
        every = self.assumptions.trainer.evaluation_every
        if not every or self.steps_done % every:
            self._free_trainer()
            return
        self._phase = "evaluating"
        self._at(self.now + self.assumptions.trainer.evaluation_seconds, "evaluated")

    def _free_trainer(self) -> None:
        self._phase, self._waiting_since = "waiting", self.now

    # ---- kills ----

    def _kill(self) -> None:
        if self._phase == "waiting":
            self.totals.waited += self.now - self._waiting_since
        for running in self.running.values():
            self.totals.worked[running.domain] += self.now - running.since
        self.running.clear()
        self._busy.clear()
        # what the world does on its own goes on; what our processes did is gone
        self._events = [event for event in self._events if event[2] in ("kill", "lost", "poll")]
        heapq.heapify(self._events)
        replayed = self.scheduler.step - self.scheduler.steps_done + self._since_push()
        down = self.assumptions.restart_seconds + replayed * self._mean_step()
        self.totals.down += down
        self._phase, self._polled = "down", None
        self._at(self.now + down, "restart")

    def _since_push(self) -> int:
        """Steps after the last checkpoint, which is written at every push."""
        return self.scheduler.steps_since_push - (self.scheduler.step - self.scheduler.steps_done)

    def _mean_step(self) -> float:
        trainer = self.assumptions.trainer
        return trainer.seconds + trainer.seconds_per_token * sum(
            domain.quota * domain.tokens for domain in self.assumptions.domains.values()
        )

    def _restart(self) -> None:
        if self._batch is not None:
            self.journal.step_done(self._batch.step)
            self._batch = None
        self.scheduler = self.build()
        for id, name in self.journal.resume(self.scheduler, self.now):
            self.scheduler.group_started(id, name)
            self._run_group(id, name)
        self._free_trainer()
        if self.scheduler.push_due:
            self._begin_push()

    # ---- draws and time ----

    def _draw(self, mean: float, sigma: float) -> float:
        # the mean of a log-normal is exp(μ + σ²/2)
        return self.random.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)

    def _at(self, time: float, kind: Kind, what: str = "") -> None:
        heapq.heappush(self._events, (time, next(self._numbers), kind, what))


def _inside(now: float, windows: Sequence[Window]) -> bool:
    return any(begin <= now < end for begin, end in windows)


def _after(now: float, seconds: float, pauses: Sequence[Window]) -> float:
    """When work of so many seconds that begins now is done, standing still in the pauses."""
    for begin, end in sorted(pauses):
        if end <= now:
            continue
        start = max(begin, now)
        if now + seconds <= start:
            break
        seconds, now = seconds - (start - now), end
    return now + seconds
