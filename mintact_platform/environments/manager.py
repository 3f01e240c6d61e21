"""Pools of leased environments for rollouts: acquire, use exclusively, give back or replace."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mintact_platform.config import Deadlines
from mintact_platform.environments.client import Lease
from mintact_platform.environments.connection import Connection
from mintact_platform.environments.local import LocalServer
from mintact_platform.environments.pool import Pool as Pool
from mintact_platform.environments.pool import PoolSpec as PoolSpec
from mintact_platform.environments.pool import PoolStats as PoolStats
from mintact_platform.errors import (
    ConfigurationError,
    EnvironmentFailure,
    LeaseExpired,
    MintactError,
)

TTL = 60.0
"""Seconds a lease outlives a scheduler that went silent."""
_BACKOFF = (0.1, 5.0)
_AVOID = 5.0


class EnvironmentManager:
    """Holds long-lived leases in pools; each is exclusive to one rollout at a time.

    A lease that failed, or on which a call was left unfinished, is never used again: it is given
    back and replaced in the background, on whichever server answers.

    Args:
        pools: by name.
        deadlines: of create and close.
        log_directory: for the output of the local server and its workers.
        incarnation: of the scheduler; part of every lease's key.
    """

    def __init__(
        self,
        pools: Mapping[str, PoolSpec],
        *,
        deadlines: Deadlines,
        log_directory: Path,
        incarnation: int,
    ) -> None:
        self._deadlines = deadlines
        self._pools = {name: Pool(name, spec) for name, spec in pools.items()}
        pythons = {spec.python for spec in pools.values() if spec.python} - {sys.executable}
        self._local = LocalServer(log_directory, sorted(pythons), deadlines.create)
        self._keys = (
            f"{incarnation}-{secrets.token_hex(8)}-{number}" for number in itertools.count()
        )
        self._tasks: list[asyncio.Task[None]] = []
        # servers where a lease broke since their leases were last asked after
        self._suspect: set[str] = set()
        self._asking = asyncio.Lock()

    async def start(self) -> None:
        """Boot every pool; returns once each has an instance, while the others still boot.

        Raises:
            ConfigurationError: a pool can never start.
            EnvironmentFailure: no instance of a pool started.
        """
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._heartbeat()),
            loop.create_task(self._watch_local()),
        ]
        for pool in self._pools.values():
            pool.seats = [
                loop.create_task(self._keep(pool), name=f"{pool.name}-{index}")
                for index in range(pool.spec.instances)
            ]
        try:
            for pool in self._pools.values():
                await self._first_instance(pool)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give every lease back and stop the local server."""
        seats = [seat for pool in self._pools.values() for seat in pool.seats]
        for task in (*self._tasks, *seats):
            task.cancel()
        await asyncio.gather(*self._tasks, *seats, return_exceptions=True)
        await self._local.stop()

    @asynccontextmanager
    async def acquire(self, pool: str) -> AsyncIterator[Lease]:
        """An exclusive lease of a pool; waits while all are busy.

        Giving back awaits nothing, so no cancellation can interrupt it.

        Raises:
            EnvironmentFailure: the pool has had no living instance for the create deadline.
        """
        chosen = self._pools[pool]
        start = time.monotonic()
        lease = await self._take(chosen)
        chosen.stats.acquired += 1
        chosen.stats.acquire_wait_s += time.monotonic() - start
        chosen.busy.add(lease)
        try:
            yield lease
        finally:
            chosen.busy.discard(lease)
            if not lease.healthy:
                self._suspect.add(lease.server)
                chosen.lost(lease)
            elif lease in chosen.leases:
                chosen.idle.put_nowait(lease)

    def stats(self) -> dict[str, PoolStats]:
        """Every pool in numbers."""
        for pool in self._pools.values():
            alive = sum(lease.healthy for lease in pool.leases)
            pool.stats.busy = len(pool.busy)
            pool.stats.idle = max(0, alive - len(pool.busy))
            pool.stats.starting = pool.spec.instances - len(pool.leases)
        return {name: pool.stats for name, pool in self._pools.items()}

    async def _take(self, pool: Pool) -> Lease:
        """The next idle lease that is still healthy."""
        while True:
            try:
                async with asyncio.timeout(self._deadlines.create):
                    lease = await pool.idle.get()
            except TimeoutError:
                if pool.leases:
                    continue
                raise pool.failure or EnvironmentFailure(
                    "no instance started in time", phase="create", kind="timeout", where=pool.name
                ) from None
            if lease.server in self._suspect:
                await self._ask_after(lease.server)
            if lease in pool.leases and lease.healthy:
                return lease

    async def _ask_after(self, server: str) -> None:
        """A worker takes all its instances with it: find out before one is handed out."""
        async with self._asking:
            if server in self._suspect:
                self._suspect.discard(server)
                await self._beat_all(only=server)

    async def _first_instance(self, pool: Pool) -> None:
        """Wait until the pool has an instance, or each of its seats failed once."""
        while not pool.leases:
            await pool.tried.wait()
            pool.tried.clear()
            tried_enough = pool.attempts >= pool.spec.instances
            if pool.failure and (tried_enough or isinstance(pool.failure, ConfigurationError)):
                raise pool.failure

    async def _keep(self, pool: Pool) -> None:
        """Fill one seat of a pool for ever: lease, wait until it is lost, give back, again."""
        while True:
            lease = await self._lease(pool)
            gone = pool.leases[lease] = asyncio.Event()
            pool.idle.put_nowait(lease)
            pool.tried.set()
            try:
                await gone.wait()
                pool.stats.failed += 1
            finally:
                pool.leases.pop(lease, None)
                await lease.release(deadline=self._deadlines.close)

    async def _lease(self, pool: Pool) -> Lease:
        pause = _BACKOFF[0]
        while True:
            start = time.monotonic()
            try:
                lease = await self._create(pool)
            except MintactError as failure:
                pool.failure, pool.attempts = failure, pool.attempts + 1
                pool.tried.set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _BACKOFF[1])
            else:
                pool.stats.boot_s += time.monotonic() - start
                return lease

    async def _create(self, pool: Pool) -> Lease:
        spec = pool.spec
        url = pool.choose_server() or await self._local.url()
        try:
            return await Lease.create(
                url,
                environment=spec.environment,
                params=spec.params,
                key=f"{pool.name}-{next(self._keys)}",
                ttl=TTL,
                image_format=spec.image_format,
                deadline=self._deadlines.create,
                bearer=self._bearer(pool),
                python=spec.python,
            )
        except MintactError:
            pool.avoid[url] = time.monotonic() + _AVOID
            raise

    async def _heartbeat(self) -> None:
        """Keep idle leases alive, one call a server; find out which are gone."""
        while True:
            await asyncio.sleep(TTL / 6)
            await self._beat_all()

    async def _beat_all(self, *, only: str | None = None) -> None:
        held: dict[tuple[str, str | None], list[tuple[Pool, Lease]]] = {}
        for pool in self._pools.values():
            for lease in pool.leases:
                if only in (None, lease.server):
                    held.setdefault((lease.server, self._bearer(pool)), []).append((pool, lease))
        await asyncio.gather(*(_beat(*server, leases) for server, leases in held.items()))

    def _bearer(self, pool: Pool) -> str | None:
        if not pool.spec.servers:
            return self._local.bearer
        return os.environ.get(pool.spec.bearer_env) if pool.spec.bearer_env else None

    async def _watch_local(self) -> None:
        """Replace the leases of a local server that died, without waiting for a heartbeat."""
        while True:
            url = await self._local.death()
            failure = EnvironmentFailure("the server died", phase="close", where=url)
            for pool in self._pools.values():
                for lease in [lease for lease in pool.leases if lease.server == url]:
                    pool.gone(lease, failure)


async def _beat(url: str, bearer: str | None, held: list[tuple[Pool, Lease]]) -> None:
    """Extend leases of one server, and have those replaced that it does not know any more."""
    connection = Connection(url, bearer)
    tokens = {lease.id: lease.token for _, lease in held}
    try:
        reply = await connection.post("close", "/v1/heartbeat", {"leases": tokens}, TTL / 6)
        gone = set(reply.get("gone", ()))
    except EnvironmentFailure as failure:
        # a slow server keeps its leases; one that nobody listens at has none
        gone = set(tokens) if failure.kind == "unreachable" else set()
    finally:
        await connection.close()
    for pool, lease in held:
        if lease.id in gone:
            pool.gone(lease, LeaseExpired("the lease is gone", phase="close", where=url))
