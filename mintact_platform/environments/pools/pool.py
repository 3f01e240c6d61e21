"""One pool of leases: what it should hold, what it holds, and who waits for it."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from mintact_platform.environments.client.transport import TransportName
from mintact_platform.environments.pools.pooled import STRIKES, PooledLease
from mintact_platform.environments.pools.stats import PoolStats as PoolStats
from mintact_platform.environments.protocol.wire import ImageFormat
from mintact_platform.errors import EnvironmentFailure, MintactError
from mintact_platform.records.task import Task

FRESH = 120.0
"""Seconds for which an observation made ahead may wait: worlds with a clock move on."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Instances of one environment with one set of parameters.

    Attributes:
        environment: registered name, or `module:attribute`.
        params: its parameters.
        instances: leases to hold.
        servers: environment servers to spread them over; empty starts one here.
        python: interpreter of the workers, None for this one.
        image_format: encoding of screenshots.
        bearer_env: name of the variable that holds the servers' bearer token.
        transport: how calls travel; `auto` prefers the stream.
        spares: instances that a server started here keeps booted beyond those leased.
        requires: what the environment's distribution must be at every server.
    """

    environment: str
    params: Mapping[str, Any] = field(default_factory=dict)
    instances: int = 4
    servers: tuple[str, ...] = ()
    python: str | None = None
    image_format: ImageFormat = "png"
    bearer_env: str | None = None
    transport: TransportName = "auto"
    spares: int = 0
    requires: tuple[str, ...] = ()


@dataclass(eq=False)
class Prepared:
    """An episode whose reset was begun ahead.

    Attributes:
        episode: its name.
        lease: where it waits.
        begun: in monotonic seconds.
        done: the lease holds the observation, or is lost.
        claimed: its rollout waits for it.
    """

    episode: str
    lease: PooledLease
    begun: float = field(default_factory=time.monotonic)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    claimed: bool = False

    @property
    def spare(self) -> bool:
        """Whether another rollout may have the lease."""
        return self.done.is_set() and not self.claimed


class Pool:
    """A pool's leases. Each is idle, busy, or in a reset that belongs to no rollout.

    Attributes:
        leases: all that live, with what tells their seat that they are lost.
        idle: ready for a rollout.
        busy: in a rollout's hands.
        ahead: episodes reset ahead, by name.
        failure: the last one of an instance.
        hopeless: why no instance will ever start again.
    """

    def __init__(self, name: str, spec: PoolSpec) -> None:
        self.name, self.spec = name, spec
        self.stats = PoolStats()
        self.leases: dict[PooledLease, asyncio.Event] = {}
        self.idle: deque[PooledLease] = deque()
        self.busy: set[PooledLease] = set()
        self.ahead: dict[str, Prepared] = {}
        self.failure: MintactError | None = None
        self.hopeless: MintactError | None = None
        self._resets: dict[PooledLease, asyncio.Task[None]] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()

    def count(self) -> PoolStats:
        """The numbers of now."""
        stats = self.stats
        stats.busy = sum(lease in self.leases for lease in self.busy)
        stats.ahead = len(self.ahead)
        stats.idle = len(self.idle) + stats.ahead
        stats.starting = self.spec.instances - stats.idle - stats.busy
        return stats

    def add(self, lease: PooledLease) -> asyncio.Event:
        """A new lease; the event tells that it is lost."""
        self.failure = None
        self.leases[lease] = asyncio.Event()
        lease.home.leases[lease] = functools.partial(self.lost, lease)
        self._put(lease)
        return self.leases[lease]

    # ---- handing out --------------------------------------------------------------------------

    async def take(self, episode: str | None = None) -> PooledLease:
        """The lease on which the episode was reset ahead, else the next one that is idle.

        Raises:
            MintactError: no instance will ever start again.
        """
        lease, again = await self._claim(episode), False
        while lease is None:
            if self.hopeless is not None and not self.leases:
                raise self.hopeless
            lease = self._best()
            if lease is None:
                await self._wait(again)
                again = True
            elif lease.home.suspect:
                await lease.home.verify()
                lease = None
        self._detach(lease)
        self.busy.add(lease)
        return lease

    def give_back(self, lease: PooledLease, deadline: float) -> None:
        """A rollout is done with it. Awaits nothing, so that no cancellation can interrupt it.

        Args:
            lease: idle again, or mended, or lost.
            deadline: seconds for the reset that mends it.
        """
        self.busy.discard(lease)
        if lease not in self.leases:
            return
        lease.forget_ahead()
        if lease.healthy:
            lease.clear()
            self._put(lease)
            return
        lease.strike()
        if lease.mendable and not self._worse_than_siblings(lease):
            self._own(lease, self._mend(lease, deadline))
        else:
            lease.home.suspect = True
            self.lost(lease)

    def lost(self, lease: PooledLease, failure: EnvironmentFailure | None = None) -> None:
        """Have the lease given back and replaced; a rollout that uses it finds out by itself."""
        event = self.leases.pop(lease, None)
        if event is None:
            return
        lease.home.leases.pop(lease, None)
        self.stats.failed += failure is not None or not lease.healthy
        self.failure = failure or lease.failure or self.failure
        self._detach(lease)
        reset = self._resets.pop(lease, None)
        if reset is not None and reset is not asyncio.current_task():
            reset.cancel()
        event.set()

    def wake_all(self) -> None:
        """Let everyone who waits look again."""
        while self._wake():
            pass

    async def close(self) -> None:
        """End every reset that belongs to no rollout."""
        resets = list(self._resets.values())
        for reset in resets:
            reset.cancel()
        await asyncio.gather(*resets, return_exceptions=True)

    # ---- resets ahead -------------------------------------------------------------------------

    def prepare(self, episode: str, task: Task, seed: int, deadline: float) -> bool:
        """Begin the reset of an episode on an idle lease; False where none can be spared."""
        if episode in self.ahead:
            return True
        now = time.monotonic()
        for entry in [entry for entry in self.ahead.values() if entry.spare]:
            if now - entry.begun > FRESH:
                self.forget(entry.episode)
        lease = next((one for one in self.idle if one.healthy and one.home.trusted), None)
        if self._waiters or lease is None or lease.home.suspect:
            return False
        self.idle.remove(lease)
        entry = self.ahead[episode] = Prepared(episode, lease)
        self._own(lease, self._reset_ahead(entry, task, seed, deadline))
        return True

    def forget(self, episode: str) -> None:
        """The episode will not be played; its lease is idle again, once its reset is done."""
        if episode in self.ahead:
            self._drop(self.ahead[episode])

    def _drop(self, entry: Prepared) -> None:
        if self.ahead.get(entry.episode) is entry:
            del self.ahead[entry.episode]
            if entry.done.is_set():
                entry.lease.forget_ahead()
                self._put(entry.lease)

    async def _reset_ahead(self, entry: Prepared, task: Task, seed: int, deadline: float) -> None:
        """A failure here costs the instance, not the episode: that starts afresh on another."""
        lease = entry.lease
        try:
            await lease.reset_ahead(entry.episode, task, seed, deadline)
        except MintactError:
            lease.home.suspect = True
            self.lost(lease)
        finally:
            entry.done.set()
        self._resets.pop(lease, None)
        if lease not in self.leases:
            return
        if self.ahead.get(entry.episode) is entry:
            self._wake()
        else:
            lease.forget_ahead()
            self._put(lease)

    async def _claim(self, episode: str | None) -> PooledLease | None:
        """The lease that waits for this episode; None where that was lost, is stale, or failed."""
        entry = self.ahead.get(episode or "")
        if entry is None:
            return None
        entry.claimed = True
        home = entry.lease.home
        try:
            await entry.done.wait()
            while home.suspect and home.trusted:
                await home.verify()
        except asyncio.CancelledError:
            self._drop(entry)
            raise
        if time.monotonic() - entry.begun > FRESH or not home.trusted:
            self._drop(entry)
        if self.ahead.get(entry.episode) is not entry:
            return None
        self.stats.found += 1
        return entry.lease

    # ---- what became of a lease ---------------------------------------------------------------

    async def _mend(self, lease: PooledLease, deadline: float) -> None:
        try:
            await lease.mend(deadline)
        except MintactError:
            lease.home.suspect = True
            self.lost(lease)
            return
        self._resets.pop(lease, None)
        if lease in self.leases:
            self.stats.mended += 1
            self._put(lease)

    def _worse_than_siblings(self, lease: PooledLease) -> bool:
        """Whether it fails on several tasks in a row while others, if there are any, succeed."""
        if len(lease.struck) < STRIKES:
            return False
        since = min(lease.struck.values())
        siblings = [other for other in self.leases if other is not lease]
        return not siblings or any((other.last_success or 0.0) > since for other in siblings)

    # ---- who is next --------------------------------------------------------------------------

    def _best(self) -> PooledLease | None:
        """An idle lease that was reset well before, else a new one, else one reset ahead."""
        usable = [one for one in self.idle if one.healthy and one.home.trusted]
        spare = [entry.lease for entry in reversed(self.ahead.values()) if entry.spare]
        spare = [one for one in spare if one.healthy and one.home.trusted]
        return next((one for one in usable if one.proved), next(iter(usable + spare), None))

    def _detach(self, lease: PooledLease) -> None:
        """It is neither idle nor waits for an episode any more."""
        if lease in self.idle:
            self.idle.remove(lease)
        for entry in [entry for entry in self.ahead.values() if entry.lease is lease]:
            del self.ahead[entry.episode]
            entry.done.set()
            if not entry.claimed:
                lease.forget_ahead()

    def _put(self, lease: PooledLease) -> None:
        self.idle.append(lease)
        self._wake()

    async def _wait(self, again: bool) -> None:
        """Until a lease became free; who finds it taken meanwhile waits `again`, as the first."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiters.appendleft if again else self._waiters.append)(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self._wake()  # our turn is somebody else's now
            raise

    def _wake(self) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    def _own(self, lease: PooledLease, reset: Coroutine[Any, Any, None]) -> None:
        self._resets[lease] = asyncio.get_running_loop().create_task(reset)
