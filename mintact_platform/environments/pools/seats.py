"""Keeps a pool filled: leases an instance for every seat, and another when one is lost."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.local import ServerGivenUp
from mintact_platform.environments.pools.placement import Placement, told_to_wait
from mintact_platform.environments.pools.pool import Pool
from mintact_platform.environments.pools.pooled import PooledLease
from mintact_platform.environments.pools.servers import TTL, Server
from mintact_platform.errors import ConfigurationError, MintactError

BACKOFF = (0.1, 30.0)
"""First and longest pause of a seat whose instances come to nothing."""
_RELEASE = 1.0


class Seats:
    """The seats of one pool, each filled by a task of its own.

    A seat whose instance boots but never gives a good reset pauses before the next, ever longer;
    one whose instance had worked gets another at once.

    Args:
        pool: to fill.
        placement: which server to ask.
        local: the server of this machine, for a pool that names none.
        keys: unique names of leases.
        deadlines: of create and close.
    """

    def __init__(
        self,
        pool: Pool,
        placement: Placement,
        local: Callable[[], Awaitable[Server]],
        keys: Iterator[str],
        deadlines: Deadlines,
    ) -> None:
        self.pool, self.placement = pool, placement
        self._local, self._keys, self._deadlines = local, keys, deadlines
        self._tried = asyncio.Event()
        self._stirred = asyncio.Event()
        self._attempts = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._releases: set[asyncio.Task[None]] = set()
        self._orphans: set[PooledLease] = set()

    def start(self) -> None:
        """Begin to fill them."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep(), name=f"{self.pool.name}-{index}")
            for index in range(self.pool.spec.instances)
        ]

    async def first(self) -> None:
        """Wait until the pool has an instance, or each seat and each server failed once.

        Raises:
            ConfigurationError: the pool can never start.
            EnvironmentFailure: no instance started.
        """
        pool = self.pool
        while not pool.leases:
            await self._tried.wait()
            self._tried.clear()
            if pool.hopeless is not None:
                raise pool.hopeless
            tried = self._attempts >= pool.spec.instances and self.placement.tried
            if pool.failure is not None and tried and not pool.leases:
                raise pool.failure

    def stir(self) -> None:
        """Something changed for the better: end the pauses, let those who wait look again."""
        self._stirred.set()
        self._stirred.clear()
        self.pool.wake_all()

    def returned(self, lease: PooledLease) -> None:
        """A rollout gave back a lease that was lost meanwhile."""
        if lease in self._orphans:
            self._orphans.discard(lease)
            self._release(lease)

    async def close(self) -> None:
        """Give every lease back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for lease in self._orphans:
            self._release(lease)
        await asyncio.gather(*self._releases, return_exceptions=True)

    def held(self) -> Counter[Server]:
        """The pool's leases by server."""
        return Counter(lease.home for lease in self.pool.leases)

    async def _keep(self) -> None:
        """Fill one seat for ever: lease, wait until it is lost, give back, again."""
        fruitless = 0
        lost_at: float | None = None
        while True:
            lease = await self._lease(fruitless)
            gone = self.pool.add(lease)
            self._tried.set()
            if lost_at is not None:
                self.pool.stats.recovery.add(time.monotonic() - lost_at)
            try:
                await gone.wait()
                lost_at = None if lease.moved else time.monotonic()
                fruitless = 0 if lease.proved or lease.moved else fruitless + 1
            finally:
                self.pool.lost(lease)
                await self._discard(lease)
            await self._pause(fruitless)

    async def _lease(self, fruitless: int) -> PooledLease:
        while True:
            try:
                server = await self._choose()
                return await self._create(server)
            except MintactError as failure:
                self._note(failure)
                told = told_to_wait(failure) is not None
            if not told:
                fruitless += 1
                await self._pause(fruitless)

    async def _choose(self) -> Server:
        """The server to ask now; waits where the best one said to."""
        while True:
            if self.pool.spec.servers:
                server = self.placement.choose(self.held())
            else:
                server = await self._local()
            pause = self.placement.wait(server)
            if pause <= 0:
                return server
            await self._rest(pause)

    async def _create(self, server: Server) -> PooledLease:
        spec, start = self.pool.spec, time.monotonic()
        self.placement.booting[server] += 1
        server.free = max(0, server.free - 1) if server.free is not None else None
        try:
            lease = await PooledLease.create(
                server.url,
                environment=spec.environment,
                params=spec.params,
                key=f"{self.pool.name}-{next(self._keys)}",
                ttl=TTL,
                image_format=spec.image_format,
                deadline=self._deadlines.create,
                bearer=server.bearer,
                python=spec.python,
                transport=spec.transport,
                requires=spec.requires,
            )
        except MintactError as failure:
            self.placement.failed(server, failure)
            raise
        finally:
            self.placement.booting[server] -= 1
        assert isinstance(lease, PooledLease)
        lease.join(server, self.pool.stats, functools.partial(self._worked, server))
        server.answered()
        self.pool.hopeless = None
        self.pool.stats.boot.add(time.monotonic() - start)
        return lease

    def _worked(self, server: Server) -> None:
        """An instance proved good: the others need not wait any longer, whoever said so."""
        self.placement.back(server)
        self.stir()

    def _note(self, failure: MintactError) -> None:
        """Remember why no lease was made; whoever waits is told when that will not change."""
        self._attempts += 1
        self.pool.failure = failure
        refused = isinstance(failure, ConfigurationError) and not self.placement.willing
        if refused or isinstance(failure, ServerGivenUp):
            self.pool.hopeless = failure
            self.pool.wake_all()
        self._tried.set()

    async def _pause(self, fruitless: int) -> None:
        if fruitless:
            await self._rest(min(BACKOFF[0] * 2 ** (fruitless - 1), BACKOFF[1]))

    async def _rest(self, seconds: float) -> None:
        """Wait so long, or until something changed for the better."""
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stirred.wait()

    async def _discard(self, lease: PooledLease) -> None:
        """Give a lost lease back; its successor does not wait for a server that hangs over it."""
        if lease in self.pool.busy:
            self._orphans.add(lease)
            return
        await asyncio.wait([self._release(lease)], timeout=_RELEASE)

    def _release(self, lease: PooledLease) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(lease.release(deadline=self._deadlines.close))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        return task
