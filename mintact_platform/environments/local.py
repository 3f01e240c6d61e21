"""The one environment server of this machine: started when needed, watched, never left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path

from mintact_platform import processes
from mintact_platform.environments.connection import finish

_GRACE = 5.0


class LocalServer:
    """The one environment server of this machine, started when needed and after it died.

    Args:
        logs: directory for its output and its workers'.
        pythons: further interpreters its workers may run in.
        deadline: seconds it may take to start.

    Attributes:
        bearer: token that keeps out what runs inside the environments, an agent's browser for one.
    """

    def __init__(self, logs: Path, pythons: list[str], deadline: float) -> None:
        self._logs, self._pythons, self._deadline = logs, pythons, deadline
        self.bearer = secrets.token_urlsafe(24)
        self._child: processes.Child | None = None
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()

    async def url(self) -> str:
        """Its URL; starts it if need be."""
        async with self._lock:
            if self._child is None or not self._child.alive():
                await self.stop()
                base = os.environ.get(processes.MARK, f"mintact-{os.getpid()}")
                self._child = await processes.spawn(
                    [sys.executable, "-m", "mintact_platform.environments.server"],
                    {
                        "logs": str(self._logs / "environments"),
                        "pythons": self._pythons,
                        "bearer": self.bearer,
                    },
                    log=self._logs / "environments.log",
                    mark=f"{base}/environments-{secrets.token_hex(4)}",
                    deadline=self._deadline,
                )
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

    async def stop(self) -> None:
        """End it with everything it started."""
        if self._child is not None:
            child, self._child = self._child, None
            await finish(_end(child))


async def _end(child: processes.Child) -> None:
    """Let it exit by itself, then kill what is left, off the event loop."""
    child.detach()
    deadline = time.monotonic() + _GRACE
    while child.alive() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    await asyncio.to_thread(child.kill)
