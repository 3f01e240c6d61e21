"""Leases over instances: what an environment server does, without HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform.environments.catalogue import Catalogue
from mintact_platform.environments.hosting import (
    CallFailed,
    Placed,
    WorkerDied,
    WorkerProcess,
)
from mintact_platform.environments.leases import Call, LeaseRecord, LeaseTable, Refusal
from mintact_platform.environments.messages import CreateRequest, ResetRequest, StepRequest
from mintact_platform.environments.metrics import Metrics
from mintact_platform.environments.wire import ErrorBody
from mintact_platform.environments.workers import Workers
from mintact_platform.errors import ConfigurationError, MintactError

PHASES = ("create", "reset", "step", "evaluate", "close")
DEFAULT_DEADLINES = {"create": 120.0, "reset": 60.0, "step": 30.0, "evaluate": 60.0, "close": 10.0}
MAX_DEADLINES = {"create": 900.0, "reset": 900.0, "step": 600.0, "evaluate": 900.0, "close": 60.0}
_REAP_EVERY = 0.5
_LOST = (410, 504)
"""Replies after which the instance is gone: its worker died or was killed at a deadline."""


class Reply(NamedTuple):
    """The outcome of a call.

    Attributes:
        status: HTTP status.
        body: packed reply of the instance, None for an error.
        error: what went wrong, None for a reply.
    """

    status: int
    body: bytes | None = None
    error: ErrorBody | None = None


Record = LeaseRecord[Reply]


@dataclass
class LeaseService:
    """Creates, drives, reaps and releases leases.

    Attributes:
        catalogue: what may be leased.
        capacity: leases at once.
        directory: for the instances' files.
        logs: for the workers' output.
        mark: prefix of the workers' marks.
    """

    catalogue: Catalogue
    capacity: int
    directory: Path
    logs: Path
    mark: str
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.table: LeaseTable[Reply] = LeaseTable(self.capacity)
        self.workers = Workers(self.directory, self.logs, self.mark, self._worker_died)
        self._placed: dict[str, Placed] = {}
        self._booting: dict[str, asyncio.Task[Reply]] = {}
        self._running: dict[str, asyncio.Task[Reply]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reaper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to reap."""
        self._reaper = asyncio.get_running_loop().create_task(self._reap())

    async def close(self) -> None:
        """End every call, kill every worker."""
        tasks = {*self._tasks, *([self._reaper] if self._reaper else [])}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.workers.close()

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
            raise Refusal(410, record.broken)
        placed = self._placed[record.id]
        return {
            "lease": record.id,
            "token": record.token,
            "instance": placed.name,
            "expires_at": time.time() + record.ttl,
            "domain": placed.worker.description.get("domain"),
            "action_space": placed.worker.description.get("action_space"),
        }

    async def reset(self, lease: str, token: str, request: ResetRequest) -> Reply:
        """Start an episode."""
        record = self.table.find(lease, token, "reset", time.monotonic())
        payload = {"task": request.task, "seed": request.seed}
        call = Call("reset", request.episode, 0)
        return await self._call(record, call, payload, request.deadline_s)

    async def step(self, lease: str, token: str, request: StepRequest) -> Reply:
        """Carry out one call of the agent."""
        record = self.table.find(lease, token, "step", time.monotonic())
        episode = record.episode if request.episode is None else request.episode
        call = Call("step", episode, request.step)
        return await self._call(record, call, {"action": request.action}, request.deadline_s)

    async def evaluate(self, lease: str, token: str, deadline: float | None) -> Reply:
        """Read the final state."""
        record = self.table.find(lease, token, "evaluate", time.monotonic())
        call = Call("evaluate", record.episode, record.next_step)
        return await self._call(record, call, {}, deadline)

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

    # ---- calls --------------------------------------------------------------------------------

    async def _call(
        self, record: Record, call: Call, payload: Mapping[str, Any], seconds: float | None
    ) -> Reply:
        decision = self.table.begin(record, call)
        if decision.action == "replay":
            assert decision.reply is not None
            return decision.reply
        if decision.action == "run":
            # owned by the service, not by the request: a client that went away asks again
            deadline = _bounded(call.do, seconds)
            self._running[record.id] = self._own(self._run(record, call, payload, deadline))
        return await _outcome(self._running[record.id], call.do)

    async def _run(
        self, record: Record, call: Call, payload: Mapping[str, Any], deadline: float
    ) -> Reply:
        placed = self._placed[record.id]
        start = time.perf_counter()
        reply = await self._attempt(placed, call.do, payload, deadline)
        self._running.pop(record.id, None)
        self.metrics.observe(call.do, reply.status, time.perf_counter() - start)
        if reply.error is not None and reply.status in _LOST:
            self.table.break_(record, reply.error)
            self._own(self.workers.kill(placed.worker))
        else:
            ok = reply.error is None
            self.table.finish(record, call, reply, ok=ok, now=time.monotonic())
        return reply

    async def _attempt(
        self, placed: Placed, do: str, payload: Mapping[str, Any], deadline: float
    ) -> Reply:
        """One call of an instance; every way to fail becomes a reply."""
        try:
            async with asyncio.timeout(deadline):
                return Reply(200, await placed.call(do, payload))
        except TimeoutError:
            message = f"no answer within {deadline:g} s; the instance was killed"
            return _failed(504, "timeout", do, message, placed.worker.log_tail())
        except WorkerDied:
            return _failed(410, "crash", do, "the worker died", placed.worker.log_tail())
        except CallFailed as error:
            status = 400 if (error.kind, do) == ("configuration", "create") else 500
            return _failed(status, error.kind, do, str(error), placed.worker.log_tail())

    # ---- life and death of instances ----------------------------------------------------------

    async def _boot(self, record: Record, request: CreateRequest) -> Reply:
        deadline = _bounded("create", request.deadline_s)
        start = time.perf_counter()
        reply = await self._try_boot(record, request, deadline)
        self._booting.pop(record.id, None)
        self.metrics.observe("create", reply.status, time.perf_counter() - start)
        if reply.error is not None:
            await self._discard(record, graceful=reply.status not in _LOST)
        record.expires_at = time.monotonic() + record.ttl
        return reply

    async def _try_boot(self, record: Record, request: CreateRequest, deadline: float) -> Reply:
        end = time.monotonic() + deadline
        try:
            async with asyncio.timeout(deadline):
                kind, seats, params = await self.catalogue.resolve(
                    request.environment, request.params, request.python
                )
                placed = await self.workers.place(kind, seats, deadline)
        except TimeoutError:
            return _failed(504, "timeout", "create", f"no worker within {deadline:g} s", "")
        except ConfigurationError as error:
            return Reply(400, error=ErrorBody("configuration", "create", str(error), False))
        except MintactError as error:
            return _failed(500, "crash", "create", str(error), "")
        self._placed[record.id] = placed
        payload = {"params": params, "image_format": request.image_format}
        return await self._attempt(placed, "create", payload, max(0.0, end - time.monotonic()))

    async def _discard(self, record: Record, *, graceful: bool = True) -> None:
        """Forget the lease, close its instance if it still answers, kill what is left."""
        self.table.remove(record)
        interrupted = await self._interrupt(record)
        placed = self._placed.pop(record.id, None)
        if placed is None:
            return
        healthy = graceful and record.broken is None
        if interrupted and placed.worker.seats == 1:
            healthy = False
        if healthy:
            reply = await self._attempt(placed, "close", {}, DEFAULT_DEADLINES["close"])
            healthy = reply.status not in _LOST
        if healthy:
            await self.workers.vacate(placed)
        else:
            await self.workers.kill(placed.worker)

    async def _interrupt(self, record: Record) -> bool:
        """End what the lease is doing; whether it did anything."""
        booting = self._booting.pop(record.id, None)
        if booting is not None and booting is not asyncio.current_task():
            booting.cancel()
            await asyncio.wait([booting])
            return True
        running = self._running.get(record.id)
        if running is None:
            return False
        if self._placed[record.id].worker.seats > 1:
            # siblings live in this worker: let the call end, or be killed at its own deadline
            await asyncio.wait([running])
        return True

    def _worker_died(self, worker: WorkerProcess) -> None:
        """Every lease in a dead worker is broken, busy or idle."""
        if worker.instances:
            self.metrics.workers_lost += 1
        for record in self.table:
            placed = self._placed.get(record.id)
            if placed is not None and placed.worker is worker and record.running is None:
                error = ErrorBody("crash", "step", "the worker died", True, worker.log_tail())
                self.table.break_(record, error)
        self._own(self.workers.kill(worker))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_EVERY)
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


def _bounded(phase: str, seconds: float | None) -> float:
    return min(DEFAULT_DEADLINES[phase] if seconds is None else seconds, MAX_DEADLINES[phase])


def _failed(status: int, kind: str, phase: str, message: str, log_tail: str) -> Reply:
    return Reply(status, error=ErrorBody(kind, phase, message, kind != "configuration", log_tail))


async def _outcome(task: asyncio.Task[Reply], phase: str) -> Reply:
    """Await a task of the service; that it was cancelled is an answer, not our cancellation."""
    await asyncio.wait([task])
    if task.cancelled():
        raise Refusal(410, ErrorBody("cancelled", phase, "the lease was given back meanwhile"))
    return task.result()
