"""The ledger of a simulated run, in memory: it refuses what run.db refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.quota import DomainStatistics
from mintact_platform.scheduler.state import Batch, Scheduler
from mintact_platform.storage.ledger import FATES, TRANSITIONS, Fate, LedgerRow


class OpenGroup(NamedTuple):
    """A group that was in flight when everything was killed."""

    id: str
    domain: str


class Journal(Protocol):
    """What a run writes down, and what a resumed one finds."""

    def opened(self, id: str, domain: str, now: float) -> None:
        """A group began."""
        ...

    def closed(
        self, id: str, fate: Fate, group: QueuedGroup | None, now: float, reward: float | None
    ) -> None:
        """A group ended; `group` is what enters the queue."""
        ...

    def moved(self, ids: Iterable[str], fate: Fate) -> None:
        """Queued groups were evicted or found stale."""
        ...

    def step_begun(self, batch: Batch, version: int) -> None:
        """A batch goes to the trainer."""
        ...

    def step_done(self, step: int) -> None:
        """The trainer finished it."""
        ...

    def pushed(self, version: int, step: int) -> None:
        """Weights of a step are served."""
        ...

    def resume(self, scheduler: Scheduler, now: float) -> list[OpenGroup]:
        """Bring a fresh scheduler to where the run was; returns what was in flight."""
        ...

    def ledger(self) -> dict[str, LedgerRow]:
        """What became of the groups, by domain."""
        ...


class MemoryJournal:
    """A journal that keeps what is under way and counts the rest.

    Args:
        domains: their names.
    """

    def __init__(self, domains: Iterable[str]) -> None:
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in domains}
        self.produced: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.statistics: list[Mapping[str, DomainStatistics]] = []
        self.since_batch = {name: [0, 0, 0.0] for name in self.counts}
        self.step = self.version = self.pushed_step = 0
        self._fates: dict[str, tuple[str, str]] = {}
        self._queued: dict[str, QueuedGroup] = {}
        self._batched: tuple[str, ...] = ()

    def opened(self, id: str, domain: str, now: float) -> None:
        """A group began."""
        if id in self._fates:
            raise ValueError(f"group {id!r} is already there")
        self._fates[id] = (domain, "open")
        self.produced[domain] += 1
        self.counts[domain]["open"] += 1

    def closed(
        self, id: str, fate: Fate, group: QueuedGroup | None, now: float, reward: float | None
    ) -> None:
        """A group ended."""
        domain = self._move(id, fate)
        if group is not None:
            self._queued[id] = group
            self.accepted[domain] += 1
        if reward is not None:
            seen = self.since_batch[domain]
            seen[0] += 1
            seen[1] += group is not None
            seen[2] += reward

    def moved(self, ids: Iterable[str], fate: Fate) -> None:
        """Queued groups were evicted or found stale."""
        for id in ids:
            self._move(id, fate)
            del self._queued[id]

    def step_begun(self, batch: Batch, version: int) -> None:
        """A batch goes to the trainer."""
        if batch.step != self.step + 1 or self._batched:
            raise ValueError(f"step {batch.step} follows step {self.step}")
        self._batched = tuple(group.id for group in batch.groups)
        self.moved(self._batched, "batched")
        self.statistics.append(batch.statistics)
        self.since_batch = {name: [0, 0, 0.0] for name in self.counts}

    def step_done(self, step: int) -> None:
        """The trainer finished it."""
        if step != self.step + 1 or not self._batched:
            raise ValueError(f"step {step} ended, it did not begin")
        for id in self._batched:
            self._move(id, "trained")
        self.step, self._batched = step, ()

    def pushed(self, version: int, step: int) -> None:
        """Weights of a step are served."""
        self.version, self.pushed_step = version, step

    def resume(self, scheduler: Scheduler, now: float) -> list[OpenGroup]:
        """Bring a fresh scheduler to where the run was."""
        scheduler.restore(
            list(self._queued.values()),
            self.accepted,
            self.step,
            self.version,
            self.step - self.pushed_step,
            ledger=self.ledger(),
            statistics=self.statistics,
            since_batch={
                name: DomainStatistics(int(n), int(i), r)
                for name, (n, i, r) in self.since_batch.items()
            },
        )
        return [OpenGroup(id, d) for id, (d, fate) in self._fates.items() if fate == "open"]

    def ledger(self) -> dict[str, LedgerRow]:
        """What became of the groups, by domain."""
        return {
            name: LedgerRow(self.produced[name], *(counts[fate] for fate in FATES))
            for name, counts in self.counts.items()
        }

    def _move(self, id: str, fate: str) -> str:
        domain, before = self._fates[id]
        if fate not in TRANSITIONS.get(before, ()):
            raise ValueError(f"group {id!r} is {before}, it cannot become {fate}")
        self.counts[domain][before] -= 1
        self.counts[domain][fate] += 1
        if fate in TRANSITIONS:
            self._fates[id] = (domain, fate)
        else:
            del self._fates[id]
        return domain
