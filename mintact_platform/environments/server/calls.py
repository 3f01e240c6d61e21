"""Calls in flight: each runs once, and its reply goes to everyone who asked for it.

Nothing here is awaited: a call starts, and its end is told to callbacks, so that a step costs no
task, no timer and no future on the stream. A caller that wants to wait passes `settle` and a
future.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import ResetRequest
from mintact_platform.environments.protocol.sweeper import Sweeper
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.hosting import (
    CallFailed,
    Placed,
    WorkerDied,
    WorkerProcess,
)
from mintact_platform.environments.server.leases import Call, LeaseRecord, LeaseTable
from mintact_platform.environments.server.metrics import Metrics

DEFAULT_DEADLINES = {"create": 120.0, "reset": 60.0, "step": 30.0, "evaluate": 60.0, "close": 10.0}
MAX_DEADLINES = {"create": 900.0, "reset": 900.0, "step": 600.0, "evaluate": 900.0, "close": 60.0}
LOST = (410, 504)
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
Done: TypeAlias = Callable[[Any, Reply], None]
"""Told the name under which the caller asked, and the reply."""


class Running:
    """A call that an instance carries out.

    Attributes:
        record: the lease.
        call: what it does.
        placed: the instance.
        number: of the call at the worker.
        started: moment, on the loop's clock, which is `time.monotonic`.
        seconds: it may take.
        due: moment it is given up.
        waiters: who wants the reply, with their name for it.
    """

    __slots__ = ("call", "due", "number", "placed", "record", "seconds", "started", "waiters")

    def __init__(
        self, record: Record, call: Call, placed: Placed, seconds: float, now: float
    ) -> None:
        self.record = record
        self.call = call
        self.placed = placed
        self.number = -1
        self.started = now
        self.seconds = seconds
        self.due = now + seconds
        self.waiters: list[tuple[Done, Any]] = []


class Calls:
    """Runs `reset`, `step` and `evaluate` of leases, at most one a lease at a time.

    Args:
        table: decides whether a call runs, joins, is replayed or refused.
        placed: instance by lease.
        metrics: counts the calls.
        kill: begins to kill a worker whose call passed its deadline.
        ended: told each finished call before those who wait for it.
    """

    def __init__(
        self,
        table: LeaseTable[Reply],
        placed: Mapping[str, Placed],
        metrics: Metrics,
        kill: Callable[[WorkerProcess], object],
        ended: Callable[[Running, Reply], None],
    ) -> None:
        self._table = table
        self._placed = placed
        self._metrics = metrics
        self._kill = kill
        self._ended = ended
        self._open: dict[str, Running] = {}
        self._sweeper = Sweeper(self._open, self._late)

    def reset(self, lease: str, token: str, request: ResetRequest, done: Done, name: Any) -> None:
        """Start an episode.

        Args:
            lease: its name.
            token: its fencing token.
            request: what to reset to.
            done: told `name` and the reply, perhaps before this returns.
            name: the caller's, passed back.

        Raises:
            Refusal: the call may not run.
        """
        now = time.monotonic()
        record = self._table.find(lease, token, "reset", now)
        episode, seconds = request.episode, request.deadline_s
        payload = {"task": request.task, "seed": request.seed, "episode": episode}
        self._submit(record, Call("reset", episode, 0), payload, seconds, now, done, name)

    def step(
        self,
        lease: str,
        token: str,
        step: int,
        action: Mapping[str, Any],
        episode: str | None,
        seconds: float | None,
        done: Done,
        name: Any,
    ) -> None:
        """Carry out one call of the agent; see `reset`."""
        now = time.monotonic()
        record = self._table.find(lease, token, "step", now)
        call = Call("step", record.episode if episode is None else episode, step)
        self._submit(record, call, {"action": action}, seconds, now, done, name)

    def evaluate(
        self, lease: str, token: str, seconds: float | None, done: Done, name: Any
    ) -> None:
        """Read the final state; see `reset`."""
        now = time.monotonic()
        record = self._table.find(lease, token, "evaluate", now)
        call = Call("evaluate", record.episode, record.next_step)
        self._submit(record, call, {}, seconds, now, done, name)

    def is_running(self, lease: str) -> bool:
        """Whether the lease's instance is at work."""
        return lease in self._open

    async def ended(self, lease: str) -> None:
        """Wait until nothing runs on the lease; its deadline bounds the wait."""
        running = self._open.get(lease)
        if running is not None:
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            running.waiters.append((settle, future))
            await future

    def close(self) -> None:
        """Answer every open call: the server ends."""
        self._sweeper.close()
        for running in list(self._open.values()):
            running.placed.worker.forget(running.number)
            error = ErrorBody("cancelled", running.call.do, "the server is closing")
            self._end(running, Reply(410, error=error))

    def _submit(
        self,
        record: Record,
        call: Call,
        payload: Mapping[str, Any],
        seconds: float | None,
        now: float,
        done: Done,
        name: Any,
    ) -> None:
        action, reply = self._table.begin(record, call)
        if action == "replay":
            done(name, reply)
        elif action == "join":
            self._open[record.id].waiters.append((done, name))
        else:
            placed, seconds = self._placed[record.id], bounded(call.do, seconds)
            running = Running(record, call, placed, seconds, now)
            running.waiters.append((done, name))
            self._open[record.id] = running
            self._start(running, payload)

    def _start(self, running: Running, payload: Mapping[str, Any]) -> None:
        placed, do = running.placed, running.call.do
        try:
            running.number = placed.worker.send(placed.name, do, payload, self._replied, running)
        except WorkerDied:
            self._replied(running, None, b"")
        except wire.WireError as error:
            self._end(running, failed(400, "configuration", do, str(error), ""))
        else:
            self._sweeper.watch(running.due)

    def _replied(self, running: Running, ok: bool | None, body: bytes) -> None:
        """The worker answered, or died (`ok` is None)."""
        if ok:
            self._end(running, Reply(200, body))
        else:
            error = WorkerDied() if ok is None else CallFailed.read(body)
            self._end(running, failure(running.placed, running.call.do, error))

    def _late(self, running: Running) -> None:
        running.placed.worker.forget(running.number)
        self._end(running, late(running.placed, running.call.do, running.seconds))

    def _end(self, running: Running, reply: Reply) -> None:
        record, call, now = running.record, running.call, time.monotonic()
        del self._open[record.id]
        self._metrics.observe(call.do, reply.status, now - running.started)
        if reply.error is not None and reply.status in LOST:
            self._table.break_(record, reply.error)
            self._kill(running.placed.worker)
        else:
            ok = reply.error is None
            self._table.finish(record, call, reply, ok=ok, now=now)
        self._ended(running, reply)
        for done, name in running.waiters:
            done(name, reply)


async def attempt(placed: Placed, do: str, payload: Mapping[str, Any], seconds: float) -> Reply:
    """Let an instance do what is no call of a lease, `create` or `close`, within some seconds."""
    try:
        async with asyncio.timeout(seconds):
            return Reply(200, await placed.call(do, payload))
    except TimeoutError:
        return late(placed, do, seconds)
    except (WorkerDied, CallFailed) as error:
        return failure(placed, do, error)


def settle(future: asyncio.Future[Reply], reply: Reply) -> None:
    """A `Done` for callers that wait; they may be gone."""
    if not future.done():
        future.set_result(reply)


def bounded(phase: str, seconds: float | None) -> float:
    """The deadline a call gets, in seconds."""
    if seconds is None:
        return DEFAULT_DEADLINES[phase]
    limit = MAX_DEADLINES[phase]
    return seconds if seconds < limit else limit


def failed(status: int, kind: str, phase: str, message: str, log_tail: str) -> Reply:
    """An error as a reply."""
    return Reply(status, error=ErrorBody(kind, phase, message, kind != "configuration", log_tail))


def failure(placed: Placed, phase: str, error: WorkerDied | CallFailed) -> Reply:
    """The reply when the worker died or the environment raised."""
    tail = placed.worker.log_tail()
    if isinstance(error, WorkerDied):
        return failed(410, placed.worker.cause[0], phase, placed.worker.cause[1], tail)
    status = 400 if (error.kind, phase) == ("configuration", "create") else 500
    return failed(status, error.kind, phase, str(error), tail)


def late(placed: Placed, phase: str, seconds: float) -> Reply:
    """The reply when the deadline passed; the caller kills the worker."""
    message = f"no answer within {seconds:g} s; the instance was killed"
    return failed(504, "timeout", phase, message, placed.worker.log_tail())
