"""One event loop on a thread of its own in every process, for synchronous code that holds leases.

It starts with the first lease, keeps all of them alive, and gives them back when the process ends.
A forked child has none of it: its own starts anew, and the parent's leases stay the parent's.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.client.transport import TransportName, open_transport
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

T = TypeVar("T")

TTL = 60.0
"""Seconds a lease outlives a process that died."""
_BEAT = TTL / 6
_GOODBYE = 10.0


class Server(NamedTuple):
    """How an environment server is reached.

    Attributes:
        url: of the server.
        bearer: its token, if it wants one.
        transport: how calls travel.
    """

    url: str
    bearer: str | None
    transport: TransportName


class _Held(NamedTuple):
    server: Server
    key: str


class Background:
    """The loop, its thread, and the leases held in this process.

    Attributes:
        pid: of the process it belongs to.
        loop: runs until the process ends.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._held: dict[Lease, _Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._run, name="mintact-leases", daemon=True).start()
        atexit.register(self._at_exit)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out a coroutine on the loop and wait for it, from any other thread.

        An interrupted wait cancels the work.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def lease(self, server: Server, *, key: str, **options: Any) -> Lease:
        """Make a lease that is kept alive from now on; see `Lease.create`."""
        lease = await Lease.create(
            server.url,
            key=key,
            ttl=TTL,
            bearer=server.bearer,
            transport=server.transport,
            **options,
        )
        self._held[lease] = _Held(server, key)
        return lease

    async def release(self, lease: Lease, deadline: float) -> None:
        """Give a lease back; a second time does nothing."""
        if self._held.pop(lease, None) is not None:
            await lease.release(deadline=deadline)

    def release_soon(self, lease: Lease | str, deadline: float) -> None:
        """Give a lease, or the one of a key, back without waiting, from any thread."""
        if self.pid == os.getpid():
            self.loop.call_soon_threadsafe(self._release_soon, lease, deadline)

    def _release_soon(self, wanted: Lease | str, deadline: float) -> None:
        for lease, held in self._held.items():
            if wanted in (lease, held.key):
                self._own(self.release(lease, deadline))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._own(self._keep_alive())
        self.loop.run_forever()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            servers = {held.server for held in self._held.values()}
            await asyncio.gather(*map(self._beat, servers))

    async def _beat(self, server: Server) -> None:
        held = [lease for lease, held in self._held.items() if held.server == server]
        tokens = {lease.id: lease.token for lease in held}
        transport = open_transport(*server)
        try:
            await transport.call("heartbeat", {"leases": tokens}, _BEAT)
        except (EnvironmentFailure, ConfigurationError):
            pass  # the next call on a lease finds out and says so
        finally:
            await transport.close()

    def _at_exit(self) -> None:
        if self.pid != os.getpid():
            return
        future = asyncio.run_coroutine_threadsafe(self._goodbye(), self.loop)
        try:
            future.result(_GOODBYE + 1)
        except Exception:
            pass  # what is still held ends by its time to live

    async def _goodbye(self) -> None:
        async with asyncio.timeout(_GOODBYE):
            await asyncio.gather(*(self.release(lease, _GOODBYE) for lease in list(self._held)))


class _Process:
    """The background of this process, and those inherited from its parents.

    An inherited one is kept for ever: collecting it would touch sockets that are the parent's too.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.background: Background | None = None
        self.inherited: list[Background] = []

    def forked(self) -> None:
        """Begin anew in the child; another thread of the parent may have held the lock."""
        self.lock = threading.Lock()
        if self.background is not None:
            self.inherited.append(self.background)
            self.background = None


_process = _Process()
os.register_at_fork(after_in_child=_process.forked)


def background() -> Background:
    """The one of this process, started when first asked for."""
    with _process.lock:
        if _process.background is None:
            _process.background = Background()
        return _process.background
