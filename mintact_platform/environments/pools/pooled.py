"""A lease that belongs to a pool: reset ahead of its rollout, mended after it, judged by steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.protocol.wire import Observation
from mintact_platform.errors import LeaseExpired
from mintact_platform.records.task import Task

if TYPE_CHECKING:
    from mintact_platform.environments.pools.servers import Server
    from mintact_platform.environments.pools.stats import PoolStats

STRIKES = 3
"""Tasks an instance may fail in a row before it is compared with its siblings."""
_GONE = frozenset({"timeout", "crash", "unreachable", "invalid"})
"""Failures after which an instance is not asked again; after any other a reset may mend it."""


class _Reset(NamedTuple):
    episode: str
    task: Task
    seed: int


class PooledLease(Lease):
    """One lease of a pool.

    Attributes:
        home: the server it lives at.
        last_success: when a step last succeeded, in monotonic seconds; None before the first.
        proved: whether a reset ever succeeded.
        moved: it was given up for one on another server; nothing was wrong with it.
        struck: tasks failed since the last success, with the time of the first.
    """

    home: Server
    last_success: float | None = None
    proved: bool = False
    moved: bool = False

    _stats: PoolStats
    _last: _Reset | None = None
    _ready: tuple[str, Observation] | None = None

    def join(self, home: Server, stats: PoolStats, worked: Callable[[], None]) -> None:
        """Become part of a pool.

        Args:
            home: the server it lives at.
            stats: of the pool.
            worked: told of the first reset that succeeds.
        """
        self.home, self._stats, self._worked = home, stats, worked
        self.struck: dict[str, float] = {}
        self._spent: dict[str, int] = {}

    @property
    def mendable(self) -> bool:
        """Whether it failed in a way that a reset may mend: the environment raised and lives."""
        failure = self.failure
        if failure is None or isinstance(failure, LeaseExpired) or self._last is None:
            return False
        return failure.phase in ("step", "evaluate") and failure.kind not in _GONE

    async def reset(self, *, episode: str, task: Task, seed: int, deadline: float) -> Observation:
        """Start an episode; answered at once where that was done ahead. See `Lease.reset`."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == episode:
            return ready[1]
        return await self._reset(_Reset(episode, task, seed), deadline)

    async def step(self, *, step: int, action: Mapping[str, Any], deadline: float) -> Observation:
        """Carry out one call of the agent; see `Lease.step`."""
        start = time.monotonic()
        observation = await super().step(step=step, action=action, deadline=deadline)
        self.last_success = now = time.monotonic()
        self._stats.step.add(now - start)
        self._stats.succeeded(now)
        self.home.answered()
        return observation

    async def reset_ahead(self, episode: str, task: Task, seed: int, deadline: float) -> None:
        """Start an episode that will be played later.

        Raises:
            EnvironmentFailure: phase `reset`.
        """
        self._ready = (episode, await self._reset(_Reset(episode, task, seed), deadline))

    def forget_ahead(self) -> None:
        """The episode reset ahead will be played elsewhere or never, or here from the start."""
        if self._ready is not None:
            episode, self._ready = self._ready[0], None
            self._spent[episode] = self._spent.get(episode, 0) + 1

    async def mend(self, deadline: float) -> None:
        """Reset once more after the environment raised, so that no rollout pays for finding out.

        Raises:
            EnvironmentFailure: phase `reset`; the instance is of no use any more.
        """
        assert self._last is not None
        await self._reset(self._last._replace(episode=f"{self._last.episode}~mended"), deadline)
        self.failure = None

    def strike(self) -> None:
        """The environment raised in this episode."""
        if self._last is not None:
            self.struck.setdefault(self._last.task.id, time.monotonic())

    def clear(self) -> None:
        """An episode went well."""
        self.struck.clear()

    async def _reset(self, wanted: _Reset, deadline: float) -> Observation:
        spent = self._spent.get(wanted.episode)
        name = f"{wanted.episode}~{spent}" if spent else wanted.episode
        self._last = wanted
        start = time.monotonic()
        observation = await super().reset(
            episode=name, task=wanted.task, seed=wanted.seed, deadline=deadline
        )
        self._stats.reset.add(time.monotonic() - start)
        self.home.answered()
        if not self.proved:
            self.proved = True
            self._worked()
        return observation
