"""All workers of a server: started, filled with instances, killed."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from pathlib import Path

from mintact_platform import processes
from mintact_platform.environments.hosting import Kind, Placed, WorkerProcess
from mintact_platform.errors import ConfigurationError

_BUFFER = 1 << 21


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
