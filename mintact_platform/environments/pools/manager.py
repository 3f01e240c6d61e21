"""Pools of leased environments for rollouts: acquire, use exclusively, give back or replace."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.local import LocalServer
from mintact_platform.environments.pools.placement import Placement
from mintact_platform.environments.pools.pool import Pool as Pool
from mintact_platform.environments.pools.pool import PoolSpec as PoolSpec
from mintact_platform.environments.pools.pool import PoolStats as PoolStats
from mintact_platform.environments.pools.pooled import PooledLease
from mintact_platform.environments.pools.seats import Seats
from mintact_platform.environments.pools.servers import Rounds, Server
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task


class EnvironmentManager:
    """Holds long-lived leases in pools; each is exclusive to one rollout at a time.

    A lease whose instance died, hung or answered garbage, or on which a call was left unfinished,
    is never used again: it is given back and replaced in the background, on whichever server has
    room. One whose environment merely raised is reset once more before a rollout gets it again.

    Args:
        pools: by name.
        deadlines: of create, reset and close.
        log_directory: for the output of the local server and its workers.
        incarnation: of the scheduler; part of every lease's key.
        local: more of the local server's specification, see `server.ServerSpec`.
    """

    def __init__(
        self,
        pools: Mapping[str, PoolSpec],
        *,
        deadlines: Deadlines,
        log_directory: Path,
        incarnation: int,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        self._deadlines = deadlines
        self._local = LocalServer(log_directory, deadlines.create, _options(pools, local or {}))
        self._keys = (
            f"{incarnation}-{secrets.token_hex(8)}-{number}" for number in itertools.count()
        )
        self._rounds = Rounds(back=self._back, lost=self._lost, told=self._even_out)
        self._here: Server | None = None
        self._specs = dict(pools)
        self._pools: dict[str, Pool] = {}
        self._seats: dict[str, Seats] = {}
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Boot every pool; returns once each has an instance, while the others still boot.

        Raises:
            ConfigurationError: a pool can never start.
            EnvironmentFailure: no instance of a pool started.
        """
        servers: dict[tuple[str, str | None], Server] = {}
        for name, spec in self._specs.items():
            bearer = os.environ.get(spec.bearer_env) if spec.bearer_env else None
            for url in spec.servers:
                if (url, bearer) not in servers:
                    servers[url, bearer] = Server(url, bearer, transport=spec.transport)
            its = [servers[url, bearer] for url in spec.servers]
            self._pools[name] = Pool(name, spec)
            self._seats[name] = Seats(
                self._pools[name], Placement(name, its), self._at_home, self._keys, self._deadlines
            )
        self._watching = asyncio.get_running_loop().create_task(self._watch_local())
        try:
            await self._rounds.start(servers.values())
            for seats in self._seats.values():
                seats.start()
            for seats in self._seats.values():
                await seats.first()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give every lease back and stop the local server."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        await asyncio.gather(*(seats.close() for seats in self._seats.values()))
        await self._rounds.close()
        await self._local.stop()

    @asynccontextmanager
    async def acquire(self, pool: str, *, episode: str | None = None) -> AsyncIterator[PooledLease]:
        """An exclusive lease of a pool; waits while all are busy.

        Giving back awaits nothing, so no cancellation can interrupt it.

        Args:
            pool: its name.
            episode: to be played; finds the lease on which `prepare` reset it.

        Raises:
            EnvironmentFailure: the pool has had no living instance for the create deadline.
            MintactError: no instance will ever start again.
        """
        chosen = self._pools[pool]
        start = time.monotonic()
        lease = await self._take(chosen, episode)
        chosen.stats.acquired += 1
        chosen.stats.acquire.add(time.monotonic() - start)
        try:
            yield lease
        finally:
            chosen.give_back(lease, self._deadlines.reset)
            self._seats[pool].returned(lease)

    def prepare(
        self, pool: str, *, episode: str, task: Task, seed: int, deadline: float | None = None
    ) -> bool:
        """Reset an episode that will be played soon, on a lease that would else stand idle.

        The rollout that acquires with this episode's name finds its observation ready: `reset`
        returns at once. A reset that fails here costs the instance and not the episode, which
        then starts afresh on another. Whoever finds no idle lease may take one reset ahead.

        Args:
            pool: its name.
            episode: unique name, the same as given to `acquire` and `reset`.
            task: as given to `reset`.
            seed: as given to `reset`.
            deadline: seconds, None for the deadline of a reset.

        Returns:
            Whether the episode is prepared; False when every lease is needed otherwise.
        """
        limit = self._deadlines.reset if deadline is None else deadline
        return self._pools[pool].prepare(episode, task, seed, limit)

    def forget(self, pool: str, episode: str) -> None:
        """A prepared episode will not be played; its lease is free for others."""
        self._pools[pool].forget(episode)

    def stats(self) -> dict[str, PoolStats]:
        """Every pool in numbers."""
        return {name: pool.count() for name, pool in self._pools.items()}

    async def _take(self, pool: Pool, episode: str | None) -> PooledLease:
        while True:
            try:
                async with asyncio.timeout(self._deadlines.create):
                    return await pool.take(episode)
            except TimeoutError:
                if any(lease.home.trusted for lease in pool.leases):
                    continue
                raise pool.failure or EnvironmentFailure(
                    "no instance answers", phase="create", kind="timeout", where=pool.name
                ) from None

    # ---- servers ------------------------------------------------------------------------------

    async def _at_home(self) -> Server:
        """The server of this machine, started if need be."""
        url = await self._local.url()
        if self._here is not None and self._here.url != url:
            await self._home_died(self._here)
        if self._here is None:
            names = {spec.transport for spec in self._specs.values() if not spec.servers}
            transport = names.pop() if len(names) == 1 else "auto"
            self._here = Server(url, self._local.bearer, transport=transport, local=True)
            self._rounds.add(self._here)
        return self._here

    async def _watch_local(self) -> None:
        """Replace the leases of a local server that died, without waiting for a heartbeat."""
        while True:
            url = await self._local.death()
            if self._here is not None and self._here.url == url:
                await self._home_died(self._here)

    async def _home_died(self, here: Server) -> None:
        self._here, here.dead = None, True
        self._lost(here)
        self._back(here)
        await self._rounds.remove(here)

    def _lost(self, server: Server) -> None:
        """A server died or hangs: its leases are made anew, elsewhere if there is an elsewhere."""
        if server.local and not server.dead:
            self._local.kill()
            return
        failure = EnvironmentFailure(
            "the server died" if server.dead else "the server hangs",
            phase="close",
            kind="unreachable",
            where=server.url,
        )
        for pool in self._pools.values():
            others = [s for s in self._seats[pool.name].placement.willing if s is not server]
            if server.dead or any(other.trusted for other in others):
                for lease in [lease for lease in pool.leases if lease.home is server]:
                    pool.lost(lease, failure)

    def _back(self, server: Server) -> None:
        for seats in self._seats.values():
            seats.placement.back(server)
            seats.stir()

    def _even_out(self, server: Server) -> None:
        """One idle lease a round moves away from a server while another has much more room."""
        for seats in self._seats.values():
            idle = [lease for lease in seats.pool.idle if lease.home is server]
            if idle and seats.placement.crowded(seats.held()) is server:
                idle[0].moved = True
                seats.pool.lost(idle[0])


def _options(pools: Mapping[str, PoolSpec], more: Mapping[str, Any]) -> dict[str, Any]:
    """The local server's part of the specification."""
    here = [spec for spec in pools.values() if not spec.servers]
    options: dict[str, Any] = {
        "pythons": sorted({spec.python for spec in here if spec.python} - {sys.executable}),
        # half as many more: broken ones end while others already take their place
        "capacity": max(512, sum(3 * spec.instances for spec in here) // 2),
    }
    spares: Counter[str] = Counter()
    for spec in here:
        spares[spec.environment] = max(spares[spec.environment], spec.spares)
    if any(spares.values()):
        options["spares"] = dict(spares)
    return {**options, **more}
