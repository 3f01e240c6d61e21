"""A server watched from outside: what it holds before, and what it still holds afterwards."""

import asyncio
import contextlib
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest

from mintact_platform import processes

HERE = Path(__file__).parent


class Holdings(NamedTuple):
    """What a server process holds."""

    descriptors: int
    sockets: int
    listening: tuple[tuple[str, int], ...]
    threads: int
    children: int
    megabytes: float


@dataclass
class WatchedServer:
    """A running environment server and its temporary directory."""

    child: processes.Child
    url: str
    mark: str
    folder: Path

    def workers(self, name: str = "") -> list[int]:
        """Processes that carry the mark of one worker, or of any."""
        pids = processes.marked(f"{self.mark}/workers/{name}" if name else self.mark)
        return [pid for pid in pids if pid != self.child.process.pid]

    def files(self) -> list[str]:
        """What lies in the directories of its instances."""
        return [str(p) for d in self.folder.glob("mintact-*") for p in d.iterdir()]

    def holdings(self) -> Holdings:
        process = psutil.Process(self.child.process.pid)
        with process.oneshot():
            sockets = process.net_connections()
            listening = [tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN]
            return Holdings(
                process.num_fds(),
                len(sockets),
                tuple(sorted(listening)),
                process.num_threads(),
                len(process.children(recursive=True)),
                process.memory_info().rss / 2**20,
            )

    async def status(self) -> dict:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=30) as http:
            return (await http.get("/v1/environments")).json()

    async def settled(self, seconds: float = 90.0) -> None:
        """Wait until nothing of any lease is left.

        Raises:
            AssertionError: saying what is left.
        """
        left: dict = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    left = {
                        "leases": (await self.status())["leases"],
                        "processes": [_say(pid) for pid in self.workers()],
                        "files": self.files(),
                    }
                    if not any(left.values()):
                        return
                    await asyncio.sleep(0.05)
        pytest.fail(f"after {seconds:g} s there is left: {left}")


@pytest.fixture(scope="session")
def watched_server(tmp_path_factory):
    """Start servers whose directory is known; all are stopped at the end."""
    children = []

    async def start(*, environ=None, **spec) -> WatchedServer:
        # short: the path of a socket in it has at most 108 bytes
        folder, logs = tmp_path_factory.mktemp("s"), tmp_path_factory.mktemp("logs")
        child = await processes.spawn(
            [sys.executable, "-m", "mintact_platform.environments.server.app"],
            {"logs": str(logs), **spec},
            log=logs / "server.log",
            mark=f"soak-{secrets.token_hex(4)}",
            deadline=60,
            environ={"PYTHONPATH": str(HERE), "TMPDIR": str(folder), **(environ or {})},
        )
        children.append(child)
        return WatchedServer(child, child.ready["url"], child.mark, folder)

    yield start
    for child in children:
        child.kill()


def with_argument(token: str) -> list[int]:
    """Processes that carry the text as an argument, whatever became of their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if token in process.cmdline():
                found.append(process.pid)
    return found


@pytest.fixture(scope="session")
def find_argument():
    return with_argument


def _say(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} {process.status()} {' '.join(process.cmdline())[:80]}"
    except psutil.Error:
        return str(pid)


class Proxy:
    """A TCP relay that can stop relaying without closing anything."""

    def __init__(self, url: str) -> None:
        self._target = (httpx.URL(url).host, httpx.URL(url).port)
        self._open: list[asyncio.StreamWriter] = []
        self._go = asyncio.Event()
        self._go.set()
        self._tasks: set[asyncio.Task] = set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._open:
            writer.close()
        await asyncio.gather(*(w.wait_closed() for w in self._open), return_exceptions=True)

    def stall(self) -> None:
        """Read and write nothing more, close nothing: the other host lost its power."""
        self._go.clear()

    def _accept(self, reader, writer) -> None:
        self._open.append(writer)
        self._tasks.add(asyncio.create_task(self._relay(reader, writer)))

    async def _relay(self, reader, writer) -> None:
        await self._go.wait()
        back, onward = await asyncio.open_connection(*self._target)
        self._open.append(onward)
        pumps = [asyncio.create_task(self._pump(*p)) for p in ((reader, onward), (back, writer))]
        self._tasks.update(pumps)
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader, writer) -> None:
        while True:
            data = await reader.read(65536)
            await self._go.wait()
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()


@pytest.fixture
def proxy_to():
    return Proxy


@pytest.fixture
def own_descriptors():
    return lambda: len(os.listdir("/proc/self/fd"))
