"""The server's side of its workers: start them, place instances in them, kill them."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform import processes
from mintact_platform.environments import wire
from mintact_platform.errors import ConfigurationError

_BUFFER = 1 << 21


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


class Workers:
    """All workers of a server.

    Args:
        directory: everything the instances write lies below it.
        logs: one log a worker.
        mark: every process of a worker carries `<mark>/<worker>`.
        on_death: told when a worker died by itself or was killed, with its instances still named.
    """

    def __init__(
        self,
        directory: Path,
        logs: Path,
        mark: str,
        on_death: Callable[[WorkerProcess], None],
    ) -> None:
        self._directory = directory
        self._logs = logs
        self._mark = mark
        self._on_death = on_death
        self._numbers = itertools.count(1)
        self._workers: dict[str, WorkerProcess] = {}
        self._seats: dict[Kind, int] = {}
        self._first: dict[Kind, asyncio.Lock] = {}

    def __len__(self) -> int:
        return len(self._workers)

    async def place(self, kind: Kind, seats: int | None, deadline: float) -> Placed:
        """A seat for one instance: in a worker with room, else in a new one.

        Args:
            kind: what to host.
            seats: instances a worker may host; None asks the first worker.
            deadline: seconds a new worker may take to start.

        Raises:
            ConfigurationError: the worker cannot host this environment.
            MintactError: the worker did not start.
        """
        if seats is None and kind not in self._seats:
            async with self._first.setdefault(kind, asyncio.Lock()):
                return await self._place(kind, self._seats.get(kind, 1), deadline)
        return await self._place(kind, seats or self._seats[kind], deadline)

    async def _place(self, kind: Kind, seats: int, deadline: float) -> Placed:
        number = next(self._numbers)
        worker = self._with_room(kind) or self._new(kind, seats, number, deadline)
        placed = Placed(f"{worker.name}.{number}", worker)
        worker.instances.add(placed.name)
        try:
            assert worker.starting is not None
            await asyncio.shield(worker.starting)
        except BaseException:
            await asyncio.shield(self.vacate(placed))
            raise
        self._seats[kind] = worker.seats
        return placed

    async def vacate(self, placed: Placed) -> None:
        """The instance needs its seat no more; a worker without instances is killed."""
        placed.worker.instances.discard(placed.name)
        if not placed.worker.instances:
            await self.kill(placed.worker)

    async def kill(self, worker: WorkerProcess) -> None:
        """Kill a worker with all its instances."""
        try:
            await worker.kill()
        finally:
            self._workers.pop(worker.name, None)

    async def close(self) -> None:
        """Kill all workers, in one sweep over the processes."""
        await asyncio.to_thread(processes.kill_marked, self._mark)
        await asyncio.gather(*(self.kill(worker) for worker in list(self._workers.values())))

    def _with_room(self, kind: Kind) -> WorkerProcess | None:
        for worker in self._workers.values():
            if worker.kind == kind and not worker.dead and len(worker.instances) < worker.seats:
                return worker
        return None

    def _new(self, kind: Kind, seats: int, number: int, deadline: float) -> WorkerProcess:
        name = f"w{number}"
        worker = WorkerProcess(name, kind, self._directory / name, self._on_death, seats)
        worker.starting = asyncio.get_running_loop().create_task(self._start(worker, deadline))
        worker.starting.add_done_callback(worker.started)
        self._workers[name] = worker
        return worker

    async def _start(self, worker: WorkerProcess, deadline: float) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            ours.setblocking(False)
            await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
            worker.child = await processes.spawn(
                [worker.kind.python, "-m", "mintact_platform.environments.worker"],
                {
                    "environment": worker.kind.environment,
                    "directory": str(worker.directory),
                    "fd": theirs.fileno(),
                },
                log=self._logs / f"{worker.name}.log",
                mark=f"{self._mark}/{worker.name}",
                deadline=deadline,
                environ={"PYTHONUNBUFFERED": "1"},
                pass_fds=(theirs.fileno(),),
            )
        if "error" in worker.child.ready:
            raise ConfigurationError(worker.child.ready["error"])
        worker.description = worker.child.ready["description"]
        worker.seats = max(1, int(worker.description.get("instances_per_worker", 1)))
