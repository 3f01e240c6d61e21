"""The one environment server of this machine: started when needed, watched, never left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from mintact_platform import processes
from mintact_platform.errors import MintactError
from mintact_platform.processes import finish

DEATHS = 5
"""Deaths inside the window after which it is not started again."""
WINDOW = 300.0
"""Seconds."""
_BACKOFF = (0.2, 10.0)
_GRACE = 5.0


class ServerGivenUp(MintactError):
    """The environment server of this machine dies as soon as it was started."""


class LocalServer:
    """The one environment server of this machine, started when needed and after it died.

    Args:
        logs: directory for its output and its workers'.
        deadline: seconds it may take to start.
        options: more of its specification, see `server.ServerSpec`.
        sleep: of the pauses between deaths; passed in by tests.

    Attributes:
        bearer: token that keeps out what runs inside the environments, an agent's browser for one.
    """

    def __init__(
        self,
        logs: Path,
        deadline: float,
        options: Mapping[str, Any],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._logs, self._deadline, self._options = logs, deadline, dict(options)
        self.bearer = secrets.token_urlsafe(24)
        self._sleep = sleep
        self._child: processes.Child | None = None
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()
        self._deaths: deque[float] = deque(maxlen=DEATHS)

    async def url(self) -> str:
        """Its URL; starts it if need be, after a pause that grows while it keeps dying.

        Raises:
            ServerGivenUp: it died too often.
            MintactError: it did not start.
        """
        async with self._lock:
            if self._child is None or not self._child.alive():
                if self._child is not None:
                    self._deaths.append(time.monotonic())
                await self.stop()
                await self._pause()
                try:
                    self._child = await self._start()
                except MintactError:
                    self._deaths.append(time.monotonic())
                    raise
                self._started.set()
            url: str = self._child.ready["url"]
            return url

    async def death(self) -> str:
        """Wait until the server that runs, or the next one, ended by itself; its URL."""
        await self._started.wait()
        self._started.clear()
        child = self._child
        assert child is not None
        url: str = child.ready["url"]
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            descriptor = os.pidfd_open(child.process.pid)
        except ProcessLookupError:
            return url
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return url

    def kill(self) -> None:
        """End a server that hangs; `death` tells of it like of any other."""
        if self._child is not None and self._child.alive():
            self._child.process.kill()

    async def stop(self) -> None:
        """End it with everything it started."""
        if self._child is not None:
            child, self._child = self._child, None
            await finish(_end(child))

    async def _start(self) -> processes.Child:
        base = os.environ.get(processes.MARK, f"mintact-{os.getpid()}")
        return await processes.spawn(
            [sys.executable, "-m", "mintact_platform.environments.server.app"],
            {
                "logs": str(self._logs / "environments"),
                "bearer": self.bearer,
                **self._options,
            },
            log=self._logs / "environments.log",
            mark=f"{base}/environments-{secrets.token_hex(4)}",
            deadline=self._deadline,
        )

    async def _pause(self) -> None:
        recent = sum(time.monotonic() - died < WINDOW for died in self._deaths)
        if recent >= DEATHS:
            raise ServerGivenUp(
                f"died {recent} times in {WINDOW:g} s",
                where="environment server of this machine",
                next=f"see {self._logs / 'environments.log'}",
            )
        if recent > 1:
            await self._sleep(min(_BACKOFF[0] * 2 ** (recent - 2), _BACKOFF[1]))


async def _end(child: processes.Child) -> None:
    """Let it exit by itself, then kill what is left, off the event loop."""
    child.detach()
    deadline = time.monotonic() + _GRACE
    while child.alive() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    await asyncio.to_thread(child.kill)
