"""The server's side of one worker: its calls, its replies, its end."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform import processes
from mintact_platform.environments import wire


class WorkerDied(Exception):
    """The worker's process ended while it was needed."""


class CallFailed(Exception):
    """The environment raised; `kind` and message as the worker described them."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Kind(NamedTuple):
    """What makes two instances able to share a worker.

    Attributes:
        environment: registered name or `module:attribute`.
        python: interpreter of the worker.
    """

    environment: str
    python: str


@dataclass(eq=False)
class WorkerProcess(asyncio.Protocol):
    """A worker, its open calls and its instances.

    Attributes:
        name: unique in the server; part of the mark and of the names of its instances.
        kind: environment and interpreter.
        directory: everything its instances write.
        on_death: told once.
        child: the process.
        seats: instances it may host.
        description: the environment's `mintact` metadata, once started.
        instances: names of the hosted instances.
        dead: it ended or is being killed.
        starting: settles when it is ready.
    """

    name: str
    kind: Kind
    directory: Path
    on_death: Callable[[WorkerProcess], None]
    seats: int = 1
    description: dict[str, Any] = field(default_factory=dict)
    child: processes.Child | None = None
    instances: set[str] = field(default_factory=set)
    dead: bool = False
    _calls: dict[int, asyncio.Future[tuple[bool, bytes]]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _reader: wire.FrameReader = field(default_factory=wire.FrameReader)
    _transport: asyncio.Transport | None = None
    _killing: asyncio.Task[None] | None = None
    starting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the worker."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Settle the calls that these replies answer."""
        try:
            for frame in self._reader.feed(data):
                call, ok, body = wire.unpack(frame)
                future = self._calls.pop(call, None)
                if future is not None and not future.done():
                    future.set_result((ok, body))
        except (wire.WireError, ValueError, TypeError):
            self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The worker died: every open call fails."""
        if not self.dead:
            self.dead = True
            self.on_death(self)
        for future in self._calls.values():
            if not future.done():
                future.set_exception(WorkerDied())
        self._calls.clear()

    def started(self, starting: asyncio.Task[None]) -> None:
        """A worker that did not start takes no further instances."""
        if starting.cancelled() or starting.exception() is not None:
            self.dead = True

    async def call(self, instance: str, do: str, payload: Mapping[str, Any]) -> bytes:
        """Let an instance do something; the reply's packed bytes.

        Raises:
            WorkerDied: before it answered.
            CallFailed: the environment raised or returned garbage.
        """
        if self.dead or self._transport is None:
            raise WorkerDied
        number = next(self._numbers)
        future: asyncio.Future[tuple[bool, bytes]] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        self._transport.write(wire.frame(wire.pack([number, instance, do, dict(payload)])))
        try:
            ok, body = await future
        finally:
            self._calls.pop(number, None)
        if not ok:
            raise CallFailed(**wire.unpack(body))
        return body

    def log_tail(self) -> str:
        """The last lines of its output."""
        return "" if self.child is None else self.child.log_tail(40)

    async def kill(self) -> None:
        """Kill its whole tree and delete its directory; safe to call twice."""
        self.connection_lost(None)
        if self._killing is None:
            self._killing = asyncio.get_running_loop().create_task(self._kill())
        await asyncio.shield(self._killing)

    async def _kill(self) -> None:
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.wait([self.starting])
        if self._transport is not None:
            self._transport.abort()
        if self.child is not None:
            await asyncio.to_thread(self.child.kill)
        await asyncio.to_thread(shutil.rmtree, self.directory, True)


@dataclass(eq=False)
class Placed:
    """An instance and the worker that hosts it."""

    name: str
    worker: WorkerProcess

    async def call(self, do: str, payload: Mapping[str, Any]) -> bytes:
        """Let the instance do something; see `WorkerProcess.call`."""
        return await self.worker.call(self.name, do, payload)
