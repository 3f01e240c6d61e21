"""Producers: start groups where the scheduler allows, run their members, hand them over judged."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pluggy

from mintact_platform.config import RunConfig
from mintact_platform.errors import MintactError
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.rollouts.episode import EpisodeKey
from mintact_platform.rollouts.rollouter import Judged, Rollouter
from mintact_platform.scheduler.changes import Changes
from mintact_platform.scheduler.deciding import admitted
from mintact_platform.scheduler.fruitless import Fruitless
from mintact_platform.scheduler.observe import Observers
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.scheduler.tasks import TaskStream
from mintact_platform.storage import ledger
from mintact_platform.storage.database import Operation
from mintact_platform.storage.directory import RunDirectory

QUARANTINE_AFTER = 8
QUARANTINE_SECONDS = 30.0
UNJUDGED = 32
"""Rollouts after which a run without any verdict ends: no judge of it works."""
RECENT = 64

Decision = Literal["queued", "filtered", "dropped"]


class InternalFailures(MintactError):
    """Too many internal failures in a row: a bug of ours or of a plugin."""


@dataclass(slots=True)
class OpenGroup:
    """A group whose members are being rolled out.

    Attributes:
        kept: members finished before a restart.
        ahead: ids of first attempts by member, for which environments were reset ahead.
    """

    id: str
    domain: str
    task: Task
    kept: dict[int, Judged] = field(default_factory=dict)
    ahead: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """The group a domain will begin next; `ahead` are the ids of its members' first attempts."""

    task: Task
    ahead: dict[int, str]


@dataclass(slots=True)
class DomainTally:
    """What a domain has shown lately, for the display."""

    dropped_in_row: int = 0
    fruitless: Fruitless = field(default_factory=Fruitless)
    quarantined_until: float = 0.0
    filtered: int = 0
    dropped: int = 0
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    turns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    masks: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))


class Producer:
    """Keeps the environments busy within what the scheduler allows.

    Args:
        config: the run.
        scheduler: pure state; asked before every start, told after every end.
        rollouter: plays and judges.
        directory: where everything is recorded before anything acts on it.
        streams: tasks by domain.
        hooks: for the `admit_group` decision.
        observers: told what happened.
        changes: told whenever the scheduler's state changed.
        say: prints a line for people.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        config: RunConfig,
        scheduler: Scheduler,
        rollouter: Rollouter,
        directory: RunDirectory,
        *,
        streams: Mapping[str, TaskStream],
        hooks: pluggy.HookRelay,
        observers: Observers,
        changes: Changes,
        say: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.scheduler, self.rollouter = config, scheduler, rollouter
        self.directory, self.streams, self.hooks = directory, streams, hooks
        self.observers, self.changes, self.clock = observers, changes, clock
        self.say = say
        self.tally = {name: DomainTally() for name in config.domains}
        self.internal_in_row = 0
        self.unjudged, self.judged = 0, False
        self._groups: set[asyncio.Task[None]] = set()
        self._planned: dict[str, PlannedGroup] = {}
        self._error: BaseException | None = None

    async def run(self, reopened: Sequence[OpenGroup] = ()) -> None:
        """Start groups until cancelled; groups in flight are cancelled with it and stay open.

        Raises:
            InternalFailures: after `rollout.internal_failures` in a row.
        """
        try:
            for group in reopened:
                self._spawn(group)
            while True:
                if self._error is not None:
                    raise self._error
                seen = self.changes.count
                if not await self._start_one():
                    await self.changes.beyond(seen, 0.2)
        finally:
            for domain, planned in self._planned.items():
                for episode in planned.ahead.values():
                    self.rollouter.forget(domain, episode)
            for task in self._groups:
                task.cancel()
            await asyncio.gather(*self._groups, return_exceptions=True)

    async def _start_one(self) -> bool:
        under_way = self.rollouter.running + sum(self.rollouter.waiting.values())
        if under_way >= self.rollouter.active:
            self._prepare_next()
            return False
        domain = self._next_domain()
        if domain is None:
            return False
        planned = self._planned.pop(domain, None)
        task = planned.task if planned else self.streams[domain].next()
        ahead = planned.ahead if planned else {}
        group = OpenGroup(self.rollouter.ids(), domain, task, ahead=ahead)
        self.scheduler.group_started(group.id, domain)
        await self.directory.database.write(
            ledger.open_group(group.id, group.task, domain, time.time())
        )
        self._spawn(group)
        await asyncio.sleep(0)
        return True

    def _next_domain(self) -> str | None:
        now = self.clock()
        busy = {d for d, n in self.rollouter.waiting.items() if n}
        resting = {d for d, tally in self.tally.items() if tally.quarantined_until > now}
        return self.scheduler.next_domain(now, resting, busy)

    def _prepare_next(self) -> None:
        """While no rollout may start: reset idle environments for the group that will be next."""
        if self.config.schedule.mode == "synchronous":
            return  # its rounds are settled by counts alone, so nobody asks about them in between
        domain = self._next_domain()
        if domain is None:
            return
        if domain not in self._planned:
            size = self.config.rollout.group_size
            ahead = {member: self.rollouter.ids() for member in range(size)}
            self._planned[domain] = PlannedGroup(self.streams[domain].next(), ahead)
        planned = self._planned[domain]
        for episode in planned.ahead.values():
            if not self.rollouter.prepare(domain, planned.task, episode):
                return

    def _spawn(self, group: OpenGroup) -> None:
        task = asyncio.create_task(self._group(group), name=f"group {group.id}")
        self._groups.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._groups.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._error = self._error or task.exception()
        self.changes.tell()

    async def _group(self, group: OpenGroup) -> None:
        size = self.config.rollout.group_size
        missing = [m for m in range(size) if m not in group.kept]
        results = await asyncio.gather(
            *(self._member(group, member) for member in missing), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        members = {**group.kept, **dict(zip(missing, results, strict=True))}
        await self._close(group, [members[m] for m in range(size)])  # type: ignore[misc]

    async def _member(self, group: OpenGroup, member: int) -> Judged:
        judged = await self._attempt(group, member, 0)
        for attempt in range(1, self.config.rollout.retries + 1):
            if judged.live or judged.outcome is Outcome.JUDGE_FAILURE:
                break
            judged = await self._attempt(group, member, attempt)
        return judged

    async def _attempt(self, group: OpenGroup, member: int, attempt: int) -> Judged:
        id = group.ahead.pop(member, None) or self.rollouter.ids()
        key = EpisodeKey(id, group.id, member, attempt)
        trajectory = await self.rollouter.play(group.domain, group.task, key)
        path = await asyncio.to_thread(self.directory.trajectories.save, trajectory)
        await self.directory.database.write(ledger.add_trajectory(trajectory, path))
        judged = await self.rollouter.judge(group.domain, trajectory)
        await self.directory.database.write(verdict_of(judged))
        self._count(group.domain, judged)
        self.observers.notify("trajectory_finished", trajectory=trajectory)
        if judged.outcome is Outcome.ENVIRONMENT_FAILURE and judged.failure is not None:
            self.observers.notify("environment_failed", lease=key.id, failure=judged.failure)
        return judged

    def _count(self, domain: str, judged: Judged) -> None:
        internal = judged.outcome is Outcome.INTERNAL_FAILURE
        self.internal_in_row = self.internal_in_row + 1 if internal else 0
        if internal and self.internal_in_row >= self.config.rollout.internal_failures:
            failure = judged.failure
            raise InternalFailures(
                f"{self.internal_in_row} internal failures in a row, the last: "
                f"{failure.kind if failure else '?'}: {failure.message if failure else ''}",
                where="rollouts",
                next=f"mintact show {self.directory.path.name} {judged.trajectory.id}",
            )
        tally = self.tally[domain]
        tally.masks.append(not judged.live)
        self.judged = self.judged or judged.verdict is not None
        self.unjudged += judged.outcome is Outcome.JUDGE_FAILURE
        if self.unjudged >= UNJUDGED and not self.judged:
            last = judged.failure.message if judged.failure is not None else ""
            raise InternalFailures(
                f"{self.unjudged} rollouts and not one verdict, the last: {last}",
                where=f"domains.{domain}.judge",
                next=f"mend it, then --resume; mintact show {self.directory.path.name}",
            )
        if judged.live:
            tally.recent.append(judged.success)
            tally.turns.append(len(judged.trajectory.turns))

    async def _close(self, group: OpenGroup, members: Sequence[Judged]) -> None:
        live = [m for m in members if m.live]
        rewards = tuple(m.reward for m in live)
        fate, reason = self._decide(group.domain, rewards)
        ranges = [m.trajectory.version_range[0] for m in live]
        oldest = min((v for v in ranges if v >= 0), default=-1)
        queued = None
        if fate == "queued":
            queued = QueuedGroup(group.id, group.domain, oldest, (), self.clock())
        await self.directory.database.write(
            ledger.close_group(group.id, fate, reason, oldest, time.time())
        )
        reward = None if fate == "dropped" else sum(rewards) / len(rewards)
        changes = self.scheduler.group_finished(group.id, queued, self.clock(), reward)
        if changes.evicted:
            await self.directory.database.write(
                ledger.set_fate(list(changes.evicted), "evicted", "queue full")
            )
        self.tally[group.domain].filtered += fate == "filtered"
        self._quarantine(group.domain, dropped=fate == "dropped")
        if line := self.tally[group.domain].fruitless.line(fate, reason, members):
            self.say(f"{group.domain}: {line}; mintact show {self.directory.path.name}")
        self.observers.notify(
            "group_finished", group=group.id, domain=group.domain, admitted=queued is not None
        )
        self.changes.tell()

    def _decide(self, domain: str, rewards: tuple[float, ...]) -> tuple[Decision, str]:
        if len(rewards) < self.config.rollout.min_live:
            return "dropped", f"{len(rewards)} live rollouts"
        if admitted(self.hooks, domain, rewards, failed=self.observers.blame):
            return "queued", ""
        return "filtered", f"uniform reward {rewards[0]:g}" if len(set(rewards)) == 1 else "refused"

    def _quarantine(self, domain: str, *, dropped: bool) -> None:
        tally = self.tally[domain]
        tally.dropped += dropped
        tally.dropped_in_row = tally.dropped_in_row + 1 if dropped else 0
        if tally.dropped_in_row >= QUARANTINE_AFTER:
            tally.quarantined_until = self.clock() + QUARANTINE_SECONDS
            tally.dropped_in_row = QUARANTINE_AFTER // 2


def verdict_of(judged: Judged) -> Operation:
    """Record what the judge said, and the outcome that follows from it."""
    return ledger.set_verdict(
        judged.trajectory.id,
        judged.verdict,
        judged.reward if judged.live else None,
        outcome=judged.outcome,
        failure=judged.failure,
    )
