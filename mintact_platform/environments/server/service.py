"""Leases over instances: what an environment server does, without HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mintact_platform.environments.protocol.messages import CreateRequest, ResetRequest, StepRequest
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.boots import Boots
from mintact_platform.environments.server.calls import (
    Calls,
    Record,
    Reply,
    Running,
    bounded,
    settle,
)
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.containment import Containment
from mintact_platform.environments.server.hosting import Placed, WorkerProcess
from mintact_platform.environments.server.leases import LeaseTable, Refusal
from mintact_platform.environments.server.metrics import Metrics
from mintact_platform.environments.server.workers import Workers

PHASES = ("create", "reset", "step", "evaluate", "close")
_REAP_EVERY = 0.5


@dataclass
class LeaseService:
    """Creates, drives, reaps and releases leases.

    Attributes:
        catalogue: what may be leased.
        capacity: leases at once.
        directory: for the instances' files.
        logs: for the workers' output.
        mark: prefix of the workers' marks.
        containment: what closes each worker in.
        spares: instances to keep ready of everything that was leased, or by environment.
    """

    catalogue: Catalogue
    capacity: int
    directory: Path
    logs: Path
    mark: str
    metrics: Metrics = field(default_factory=Metrics)
    containment: Containment = field(default_factory=Containment)
    spares: int | Mapping[str, int] = 0

    def __post_init__(self) -> None:
        self.table: LeaseTable[Reply] = LeaseTable(self.capacity)
        self.workers = Workers(
            self.directory, self.logs, self.mark, self._worker_died, self.containment
        )
        self.boots = Boots(
            self.catalogue,
            self.workers,
            self.metrics,
            self.spares,
            lambda: self.capacity - len(self.table),
            self._own,
        )
        self._placed: dict[str, Placed] = {}
        self._booting: dict[str, asyncio.Task[Reply]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.calls = Calls(self.table, self._placed, self.metrics, self._kill_late, self._ended)
        self._reaper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to reap, and to look after the workers."""
        self.workers.start()
        self._reaper = asyncio.get_running_loop().create_task(self._reap())

    async def close(self) -> None:
        """End every call, kill every worker."""
        self.calls.close()
        tasks = {*self._tasks, *([self._reaper] if self._reaper else [])}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.workers.close()
        # what the end of the workers set off
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def create(self, request: CreateRequest) -> dict[str, Any]:
        """The lease of this key, its instance booted.

        Raises:
            Refusal: full, cancelled, refused parameters, or the boot failed.
        """
        wanted = request.model_copy(update={"deadline_s": None})
        record, new = self.table.create(request.key, wanted, request.ttl_s, time.monotonic())
        if new:
            self._booting[record.id] = self._own(self._boot(record, request))
        if record.id in self._booting:
            reply = await _outcome(self._booting[record.id], "create")
            if reply.error is not None:
                raise Refusal(reply.status, reply.error)
        if record.broken is not None:
            # the client never learns the lease's name, so it cannot give it back
            await asyncio.shield(self._own(self._discard(record)))
            raise Refusal(410, record.broken)
        placed = self._placed.get(record.id)
        if placed is None:
            message = "the lease was given back meanwhile"
            raise Refusal(410, ErrorBody("cancelled", "create", message))
        space = placed.worker.description.get("action_space")
        return {
            "lease": record.id,
            "token": record.token,
            "instance": placed.name,
            "expires_at": time.time() + record.ttl,
            "domain": placed.worker.description.get("domain"),
            "action_space": space,
            "action_space_schema": self.catalogue.action_space(space),
            "native": placed.native,
        }

    async def reset(self, lease: str, token: str, request: ResetRequest) -> Reply:
        """Start an episode."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.calls.reset(lease, token, request, settle, future)
        return await future

    async def step(self, lease: str, token: str, request: StepRequest) -> Reply:
        """Carry out one call of the agent."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        step, action, episode = request.step, request.action, request.episode
        self.calls.step(lease, token, step, action, episode, request.deadline_s, settle, future)
        return await future

    async def evaluate(self, lease: str, token: str, deadline: float | None) -> Reply:
        """Read the final state."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.calls.evaluate(lease, token, deadline, settle, future)
        return await future

    async def release(self, lease: str, token: str) -> None:
        """Give a lease back; a lease that is gone already is fine."""
        try:
            record = self.table.find(lease, token, "close", time.monotonic())
        except Refusal as refusal:
            if refusal.error.kind == "fenced":
                raise
            broken = next((r for r in self.table if r.id == lease), None)
            if broken is None:
                return
            record = broken
        # a creation that was sent twice and comes late must not make a lease nobody knows of
        self.table.cancel(record.key)
        await asyncio.shield(self._own(self._discard(record)))

    async def cancel(self, key: str) -> None:
        """Give back the lease of a key, if there is one, and let none be made later."""
        record = self.table.cancel(key)
        if record is not None:
            await asyncio.shield(self._own(self._discard(record)))

    def heartbeat(self, leases: Mapping[str, str]) -> list[str]:
        """Extend leases; the names of those that are gone."""
        gone = []
        for lease, token in leases.items():
            try:
                self.table.find(lease, token, "close", time.monotonic())
            except Refusal:
                gone.append(lease)
        return gone

    # ---- life and death of instances ----------------------------------------------------------

    async def _boot(self, record: Record, request: CreateRequest) -> Reply:
        start = time.perf_counter()
        try:
            placed = await self.boots.boot(request, bounded("create", request.deadline_s))
        except BaseException:
            # a cancelled boot was cleaned up by `boots`; a bug of ours must not leave a lease
            self._booting.pop(record.id, None)
            self.table.remove(record)
            raise
        self._booting.pop(record.id, None)
        reply = placed if isinstance(placed, Reply) else Reply(200)
        if isinstance(placed, Placed) and placed.worker.dead:
            reply = Reply(410, error=_death(placed.worker, "create"))
        if isinstance(placed, Reply) or reply.error is not None:
            self.table.remove(record)
        else:
            self._placed[record.id] = placed
        record.expires_at = time.monotonic() + record.ttl
        self.metrics.observe("create", reply.status, time.perf_counter() - start)
        return reply

    async def _discard(self, record: Record) -> None:
        """Forget the lease, close its instance if it still answers, kill what is left."""
        self.table.remove(record)
        try:
            interrupted = await self._interrupt(record)
        finally:
            placed = self._placed.pop(record.id, None)
        if placed is None:
            return
        abandoned = interrupted and placed.worker.seats == 1
        await self.boots.end(placed, healthy=record.broken is None and not abandoned)

    async def _interrupt(self, record: Record) -> bool:
        """End what the lease is doing; whether it did anything."""
        booting = self._booting.pop(record.id, None)
        if booting is not None and booting is not asyncio.current_task():
            booting.cancel()
            await asyncio.wait([booting])
            return True
        if not self.calls.is_running(record.id):
            return False
        if self._placed[record.id].worker.seats > 1:
            # siblings live in this worker: let the call end, or be killed at its own deadline
            await self.calls.ended(record.id)
        return True

    def _worker_died(self, worker: WorkerProcess) -> None:
        """Every lease in a dead worker is broken, busy or idle."""
        if worker.instances:
            self.metrics.workers_lost += 1
        self.boots.worker_died(worker)
        for record in self.table:
            placed = self._placed.get(record.id)
            if placed is not None and placed.worker is worker and record.running is None:
                self.table.break_(record, _death(worker, "step"))
        self._own(self.workers.kill(worker))

    def _kill_late(self, worker: WorkerProcess) -> None:
        worker.failed = worker.failed or not worker.dead
        self._own(self.workers.kill(worker))

    def _ended(self, running: Running, reply: Reply) -> None:
        placed, do = running.placed, running.call.do
        if do == "reset":
            first = not running.record.past
            self.boots.was_reset(placed, reply, first=first, seconds=running.seconds)
        elif do == "step" and reply.error is None and placed.key is not None:
            self.metrics.last_success[placed.key.environment] = time.monotonic()

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_EVERY)
            self.boots.spares.tend(time.monotonic())
            for record in self.table.expired(time.monotonic()):
                if record.id not in self._booting:
                    self.metrics.reaped += 1
                    self._own(self._discard(record))

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run as a task that `close` ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _death(worker: WorkerProcess, phase: str) -> ErrorBody:
    kind, message = worker.cause
    return ErrorBody(kind, phase, message, True, worker.log_tail())


async def _outcome(task: asyncio.Task[Reply], phase: str) -> Reply:
    """Await a task of the service; that it was cancelled is an answer, not our cancellation."""
    await asyncio.wait([task])
    if task.cancelled():
        raise Refusal(410, ErrorBody("cancelled", phase, "the lease was given back meanwhile"))
    return task.result()
