"""Who is measured: a server, and a client in a process of its own that answers cells."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import leasing
import openenv_install
from driving import Cell, Figures

_READY = 60.0
_ANSWER = 600.0
"""Seconds; 300 sessions may have to be opened first."""


class Served(NamedTuple):
    """A running server."""

    url: str
    pid: int


@dataclass(frozen=True)
class Contestant:
    """One way to step the echo environment.

    Attributes:
        name: in the tables.
        serve: starts the server, given a directory for logs; None for none.
        client: command line of the client, without the server's URL and process id.
        arguments: what follows them.
        most: sessions it can take.
    """

    name: str
    serve: Callable[[Path], AbstractAsyncContextManager[Served]] | None
    client: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    most: int = 300


class Unavailable(Exception):
    """A contestant cannot take part; the text says why."""


def contestants() -> Mapping[str, Callable[[], Contestant]]:
    """All by name; each is prepared when called, which may raise `Unavailable`."""
    return {
        "in process": _inside,
        "http": functools.partial(_lease, "http", "echo:Echo", "http"),
        "stream": functools.partial(_lease, "stream", "echo:Echo", "stream"),
        "stream, threads": functools.partial(
            _lease, "stream, threads", "echo:EchoThread", "stream"
        ),
        "stream, processes": functools.partial(
            _lease, "stream, processes", "echo:EchoProcess", "stream", most=30
        ),
        "openenv": functools.partial(_openenv, "openenv", "serve"),
        "openenv, uncompressed": functools.partial(
            _openenv, "openenv, uncompressed", "serve-plain"
        ),
        "floor": _floor,
    }


class Client:
    """A contestant's client that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def measure(self, cell: Cell) -> Figures:
        """What this cell came to."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(cell)).encode() + b"\n")
        return Figures(**json.loads(await _line(self._process, _ANSWER)))


@asynccontextmanager
async def running(contestant: Contestant, logs: Path) -> AsyncIterator[Client]:
    """The contestant with its server, both ended afterwards."""
    if contestant.serve is None:
        async with _started(contestant.client) as process:
            yield Client(process)
        return
    async with contestant.serve(logs) as served:
        command = (*contestant.client, served.url, str(served.pid), *contestant.arguments)
        async with _started(command) as process:
            yield Client(process)


def _inside() -> Contestant:
    return Contestant("in process", None, _script(sys.executable, "client_inside.py"), most=1)


def _lease(name: str, environment: str, transport: str, most: int = 300) -> Contestant:
    client = _script(sys.executable, "client_lease.py")
    return Contestant(name, _environment_server, client, (environment, transport), most)


def _openenv(name: str, role: str) -> Contestant:
    python = _openenv_python()
    server = functools.partial(_server, _script(python, "openenv_echo.py", role))
    return Contestant(name, server, _script(python, "openenv_echo.py", "drive"))


def _floor() -> Contestant:
    server = functools.partial(_server, _script(sys.executable, "floor.py", "serve"))
    return Contestant("floor", server, _script(sys.executable, "floor.py", "drive"))


def _openenv_python() -> str:
    try:
        return str(openenv_install.python())
    except openenv_install.CannotInstall as error:
        what = openenv_install.REQUIREMENTS[0]
        raise Unavailable(f"pip could not install {what}: {error}") from None


def _script(python: str, name: str, *arguments: str) -> tuple[str, ...]:
    return (python, str(leasing.FOLDER / name), *arguments)


@asynccontextmanager
async def _environment_server(logs: Path) -> AsyncIterator[Served]:
    async with leasing.server(logs) as child:
        yield Served(child.ready["url"], child.process.pid)


@asynccontextmanager
async def _server(command: tuple[str, ...], logs: Path) -> AsyncIterator[Served]:
    """A server that writes its URL as its first line."""
    async with _started(command) as process:
        yield Served((await _line(process, _READY)).decode().strip(), process.pid)


@asynccontextmanager
async def _started(command: tuple[str, ...]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def _line(process: asyncio.subprocess.Process, seconds: float) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(seconds):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError("a client or server of the benchmark ended; see what it wrote above")
    return line
