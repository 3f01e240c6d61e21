"""All workers of a server: started, filled with instances, looked after, killed."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mintact_platform import processes
from mintact_platform.environments.server import usage
from mintact_platform.environments.server.catalogue import Resolved
from mintact_platform.environments.server.containment import Containment
from mintact_platform.environments.server.hosting import Kind, Placed, WorkerProcess
from mintact_platform.environments.server.remains import Logs, remove
from mintact_platform.environments.worker.main import seats as seats_of
from mintact_platform.errors import ConfigurationError, MintactError

_BUFFER = 1 << 21
_LOOK_EVERY = 1.0
_ENDING_AT_ONCE = 32
_KINDS_REMEMBERED = 256


class Workers:
    """All workers of a server.

    Args:
        directory: everything the instances write lies below it.
        logs: one log a worker.
        mark: every process of a worker carries `<mark>/<worker>`.
        on_death: told when a worker died by itself or was killed, with its instances still named.
        containment: what closes each worker in.

    Attributes:
        undeleted: directories that could not be deleted.
    """

    def __init__(
        self,
        directory: Path,
        logs: Path,
        mark: str,
        on_death: Callable[[WorkerProcess], None],
        containment: Containment,
    ) -> None:
        self._directory = directory
        self.logs = Logs(logs)
        self._mark = mark
        self._on_death = on_death
        self._containment = containment
        self._numbers = itertools.count(1)
        self._workers: dict[str, WorkerProcess] = {}
        self._seats: dict[Kind, int] = {}
        self._first: dict[Kind, asyncio.Lock] = {}
        self._watch: asyncio.Task[None] | None = None
        # ending a worker waits for the kernel; the loop's own few threads must stay free
        self._threads = ThreadPoolExecutor(_ENDING_AT_ONCE, "ending")
        self.undeleted = 0

    def __len__(self) -> int:
        return len(self._workers)

    def instances(self) -> int:
        """Instances in all workers, those that boot included."""
        return sum(len(worker.instances) for worker in self._workers.values())

    def start(self) -> None:
        """Begin to look after what the workers use."""
        self._watch = asyncio.get_running_loop().create_task(self._look_after())

    async def place(self, wanted: Resolved, deadline: float) -> Placed:
        """A seat for one instance: in a worker with room, else in a new one.

        Args:
            wanted: what to host; where its seats are unknown the first worker is asked.
            deadline: seconds a new worker may take to start.

        Raises:
            ConfigurationError: the worker cannot host this environment.
            MintactError: the worker did not start.
        """
        kind, seats = wanted.kind, wanted.seats
        if seats is not None or kind in self._seats:
            return await self._place(wanted, seats or self._seats[kind], deadline)
        first = self._first.setdefault(kind, asyncio.Lock())
        try:
            async with first:
                return await self._place(wanted, self._seats.get(kind, 1), deadline)
        finally:
            if not first.locked():
                self._first.pop(kind, None)

    async def _place(self, wanted: Resolved, seats: int, deadline: float) -> Placed:
        number = next(self._numbers)
        worker = self._with_room(wanted.kind) or self._new(wanted, seats, number, deadline)
        placed = Placed(f"{worker.name}.{number}", worker)
        worker.instances.add(placed.name)
        try:
            await _started(worker)
        except BaseException:
            await asyncio.shield(self.vacate(placed))
            raise
        self._remember(wanted.kind, worker.seats)
        return placed

    async def vacate(self, placed: Placed) -> None:
        """The instance needs its seat no more; a worker without instances is killed."""
        placed.worker.instances.discard(placed.name)
        if not placed.worker.instances:
            await self.kill(placed.worker)

    async def kill(self, worker: WorkerProcess) -> None:
        """Kill a worker with all its instances; its log is kept if it failed."""
        await worker.kill(self._end)

    async def close(self) -> None:
        """Kill all workers, then in one sweep whatever still carries their mark."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await asyncio.gather(*(self.kill(worker) for worker in list(self._workers.values())))
        await asyncio.to_thread(processes.kill_marked, f"{self._mark}/workers")
        self._threads.shutdown(wait=False)

    def _with_room(self, kind: Kind) -> WorkerProcess | None:
        for worker in self._workers.values():
            if worker.kind == kind and not worker.dead and len(worker.instances) < worker.seats:
                return worker
        return None

    def _remember(self, kind: Kind, seats: int) -> None:
        self._seats.pop(kind, None)
        self._seats[kind] = seats
        if len(self._seats) > _KINDS_REMEMBERED:
            self._seats.pop(next(iter(self._seats)))

    def _new(self, wanted: Resolved, seats: int, number: int, deadline: float) -> WorkerProcess:
        name = f"w{number}"
        worker = WorkerProcess(
            name,
            wanted.kind,
            self._directory / name,
            self.logs.path(name),
            self._on_death,
            seats,
            limits=self._containment.allowed(wanted.limits, f"environment {wanted.kind[0]!r}"),
        )
        starting = self._start(worker, wanted, deadline)
        worker.starting = asyncio.get_running_loop().create_task(starting)
        worker.starting.add_done_callback(worker.started)
        self._workers[name] = worker
        return worker

    async def _start(self, worker: WorkerProcess, wanted: Resolved, deadline: float) -> None:
        ours, theirs = socket.socketpair()
        closing_in, python = self._containment, worker.kind.python
        with theirs:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            ours.setblocking(False)
            await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
            worker.child = await processes.spawn(
                closing_in.command(python, worker.directory, worker.limits),
                {
                    "environment": worker.kind.environment,
                    "source": wanted.source,
                    "requires": wanted.requires,
                    "directory": str(worker.directory),
                    "fd": theirs.fileno(),
                },
                log=worker.log,
                mark=f"{self._mark}/workers/{worker.name}",
                deadline=deadline,
                environ={
                    "PYTHONUNBUFFERED": "1",
                    **closing_in.environ(worker.directory, worker.limits),
                },
                pass_fds=(theirs.fileno(),),
                keeps_tree=True,
            )
        if "error" in worker.child.ready:
            raise ConfigurationError(worker.child.ready["error"])
        worker.description = worker.child.ready["description"]
        worker.seats = seats_of(worker.description)
        where = f"environment {worker.kind.environment!r}"
        own = closing_in.allowed(worker.description.get("limits", {}), where)
        worker.limits = {**own, **worker.limits}

    async def _end(self, worker: WorkerProcess) -> None:
        """Its processes, then its directory, then its log."""
        loop = asyncio.get_running_loop()
        try:
            if worker.child is not None:
                await loop.run_in_executor(self._threads, worker.child.kill)
            if not await loop.run_in_executor(self._threads, remove, worker.directory):
                self.undeleted += 1
            self.logs.ended(worker.log, failed=worker.failed)
        finally:
            self._workers.pop(worker.name, None)

    async def _look_after(self) -> None:
        """End what uses too much, and keep the logs short."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            watched = [self._watched(worker) for worker in self._workers.values()]
            for breach in await asyncio.to_thread(usage.look, filter(None, watched)):
                worker = self._workers.get(breach.name)
                if worker is not None and not worker.dead:
                    worker.fail(breach.kind, breach.message)
                    await self.kill(worker)

    def _watched(self, worker: WorkerProcess) -> usage.Watched | None:
        if worker.child is None or worker.dead:
            return None
        around = 0 if self._containment.isolation == "none" else 1
        directory = None if self._containment.bounds_disk() else worker.directory
        pid = worker.child.process.pid
        return usage.Watched(worker.name, pid, around, directory, worker.log, worker.limits)


async def _started(worker: WorkerProcess) -> None:
    """Wait until a worker is ready, for all that wait alike.

    Raises:
        MintactError: it did not start, or was killed before it had.
    """
    assert worker.starting is not None
    try:
        await asyncio.shield(worker.starting)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if worker.starting.cancelled() and not (task is not None and task.cancelling()):
            raise MintactError(worker.cause[1], where=f"worker {worker.name}") from None
        raise
