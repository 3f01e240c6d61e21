"""The environment servers a manager uses: who answers, who has room, whose leases are gone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from mintact_platform.environments.client.connection import Connection
from mintact_platform.environments.client.transport import TransportName, open_transport
from mintact_platform.environments.pools.pooled import PooledLease
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, LeaseExpired

TTL = 60.0
"""Seconds a lease outlives a scheduler that went silent."""
BEAT = TTL / 6
"""Seconds between two heartbeats to a server."""
ASK = 5.0
"""Seconds between two questions for a server's free slots."""
HUNG = 20.0
"""Seconds of silence after which a server's leases are made anew elsewhere."""
_ANSWER = 4.0
_BEATEN = BEAT - 1
_VERIFY = 2.0
_MISSES = 2
_SILENT = ("timeout", "unreachable")

_log = logging.getLogger(__name__)


class Server:
    """One environment server, as far as this manager knows.

    Args:
        url: of the server.
        bearer: its token, None for none.
        transport: how heartbeats travel, like the calls of its leases.
        local: whether it runs on this machine for us alone; its free slots are nobody else's.

    Attributes:
        leases: ours that live there, with whom to tell when one is gone.
        free: slots it said to have, less those taken since; None before it said so.
        dead: nobody listens at its URL.
        suspect: a lease broke there since its leases were last asked after.
        recovered: it answered after it had not for a while; whoever waits for it must be told.
    """

    def __init__(
        self,
        url: str,
        bearer: str | None,
        *,
        transport: TransportName = "auto",
        local: bool = False,
    ) -> None:
        self.url, self.bearer, self.local = url, bearer, local
        self.leases: dict[PooledLease, Callable[[EnvironmentFailure], None]] = {}
        self.free: int | None = None
        self.dead = self.suspect = self.recovered = False
        self._misses = 0
        self._heard = time.monotonic()
        self._transport = open_transport(url, bearer, transport)
        self._http = Connection(url, bearer)
        self._verifying = asyncio.Lock()

    @property
    def trusted(self) -> bool:
        """Whether it answered lately."""
        return not self.dead and self._misses < _MISSES

    @property
    def hung(self) -> bool:
        """Whether it has been silent for so long that its leases are as good as gone."""
        return self._misses >= _MISSES and time.monotonic() - self._heard > HUNG

    def answered(self) -> None:
        """It said anything at all."""
        self.recovered = self.recovered or not self.trusted
        self._misses, self.dead, self._heard = 0, False, time.monotonic()

    async def ask(self) -> None:
        """Find out how many slots are free.

        Raises:
            EnvironmentFailure: no answer.
        """
        path = "/v1/environments"
        reply = await self._heard_from(self._http.request("close", "GET", path, None, _ANSWER))
        free = reply.get("free", reply.get("capacity", 0) - reply.get("leases", 0))
        self.free = free if isinstance(free, int) else None

    async def beat(self, deadline: float | None = None) -> None:
        """Extend the leases here, and tell of those that the server does not know any more.

        Args:
            deadline: seconds; None for almost until the next beat.

        Raises:
            EnvironmentFailure: no answer.
        """
        asked = list(self.leases)
        if not asked:
            return
        tokens = {"leases": {lease.id: lease.token for lease in asked}}
        limit = _BEATEN if deadline is None else deadline
        reply = await self._heard_from(self._transport.call("heartbeat", tokens, limit))
        gone = reply.get("gone", ())
        for lease in asked:
            if lease.id in gone and lease in self.leases:
                failure = LeaseExpired("the lease is gone", phase="close", where=self.url)
                self.leases[lease](failure)

    async def verify(self) -> None:
        """A worker takes all its instances with it: find out before one is handed out.

        A server that did not answer stays suspect; whether it is trusted is told by its silence.
        """
        async with self._verifying:
            if not self.suspect:
                return
            try:
                await self.beat(_ANSWER if self._misses else _VERIFY)
            except EnvironmentFailure as failure:
                self.suspect = failure.kind in _SILENT
            else:
                self.suspect = False

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()
        await self._http.close()

    async def _heard_from(self, call: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        try:
            reply = await call
        except EnvironmentFailure as failure:
            before = self.trusted
            if failure.kind == "unreachable":
                self.dead = True
            elif failure.kind == "timeout":
                self._misses += 1
            if before and not self.trusted:
                _log.warning("environment server %s does not answer: %s", self.url, failure.what)
            raise
        self.answered()
        return reply


class Rounds:
    """Asks every server for its free slots and beats for its leases, each on a task of its own.

    A server that hangs so keeps nobody waiting but itself.

    Args:
        back: told of a server that answers again.
        lost: told of a server that died or hung for too long.
        told: told of a server that just said how many slots are free.
    """

    def __init__(
        self,
        *,
        back: Callable[[Server], None],
        lost: Callable[[Server], None],
        told: Callable[[Server], None],
    ) -> None:
        self._back, self._lost, self._told = back, lost, told
        self._tasks: dict[Server, asyncio.Task[None]] = {}

    async def start(self, servers: Iterable[Server]) -> None:
        """Watch servers; returns once each said how much room it has, or had time to."""
        known = list(servers)
        for server in known:
            self.add(server)
        await asyncio.gather(*(server.ask() for server in known), return_exceptions=True)

    def add(self, server: Server) -> None:
        """Watch a server."""
        task = asyncio.get_running_loop().create_task(self._watch(server), name=server.url)
        self._tasks[server] = task

    async def remove(self, server: Server) -> None:
        """Watch it no more."""
        task = self._tasks.pop(server, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await server.close()

    async def close(self) -> None:
        """Watch nothing any more."""
        await asyncio.gather(*(self.remove(server) for server in list(self._tasks)))

    async def _watch(self, server: Server) -> None:
        beat_at = time.monotonic() + BEAT
        while True:
            await asyncio.sleep(ASK)
            with suppress(EnvironmentFailure, ConfigurationError):
                if not server.local:
                    await server.ask()
                    self._told(server)
            with suppress(EnvironmentFailure, ConfigurationError):
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + BEAT
                    await server.beat()
            self._judge(server)

    def _judge(self, server: Server) -> None:
        """Tell about what changed since the last round."""
        if server.recovered:
            server.recovered = False
            _log.warning("environment server %s answers again", server.url)
            self._back(server)
        if server.dead or server.hung:
            self._lost(server)
