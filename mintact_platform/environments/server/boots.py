"""Instances come and go: a spare or a boot, watched for failures that repeat, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mintact_platform import processes
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import CreateRequest
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.calls import (
    DEFAULT_DEADLINES,
    LOST,
    Reply,
    attempt,
    failed,
)
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.hosting import Placed, WorkerProcess
from mintact_platform.environments.server.metrics import Metrics
from mintact_platform.environments.server.quarantine import FAILURES, Key, Quarantine, key_of
from mintact_platform.environments.server.spares import Shape, Spares
from mintact_platform.environments.server.workers import Workers
from mintact_platform.errors import ConfigurationError, MintactError

_PATIENCE = 5.0
"""Seconds below which a passed deadline says more about the client than about the environment."""


class Boots:
    """Starts instances for leases and as spares, and ends them.

    Args:
        catalogue: checks what is asked for.
        workers: host the instances.
        metrics: counts boots.
        spares: instances to keep ready of every shape that was asked for, or by environment.
        room: instances that may exist beside the leases.
        own: runs a task that the server's close ends.

    Attributes:
        quarantine: what is refused because it failed again and again.
        spares: the instances that stand ready.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        workers: Workers,
        metrics: Metrics,
        spares: int | Mapping[str, int],
        room: Callable[[], int],
        own: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._catalogue = catalogue
        self._workers = workers
        self._metrics = metrics
        self._own = own
        self.quarantine = Quarantine()
        self.spares = Spares(spares, self._boot_spare, self.end, room, own)

    async def boot(self, request: CreateRequest, deadline: float) -> Placed | Reply:
        """An instance for a lease: a spare, or a new one within the deadline in seconds."""
        key = key_of(request.environment, request.params, request.python)
        refusal = self.quarantine.refusal(key, time.monotonic())
        if refusal is not None:
            return Reply(503, error=refusal)
        shape = Shape(key, request.image_format, tuple(request.requires))
        placed: Placed | Reply | None = self.spares.take(shape)
        self._metrics.spares_taken += placed is not None
        self.spares.make_room()
        placed = placed or await self._start(key, request, deadline)
        if isinstance(placed, Placed):
            self.spares.asked(shape, request)
        return placed

    async def end(self, placed: Placed, *, healthy: bool = True) -> None:
        """Close an instance if it still answers, and kill what is left."""
        if healthy:
            reply = await attempt(placed, "close", {}, DEFAULT_DEADLINES["close"])
            healthy = reply.status not in LOST
        if healthy:
            await self._workers.vacate(placed)
        else:
            await self._workers.kill(placed.worker)

    def was_reset(self, placed: Placed, reply: Reply, *, first: bool, seconds: float) -> None:
        """Learn from a reset.

        Args:
            placed: the instance.
            reply: what it answered.
            first: it was never reset before.
            seconds: the reset's deadline.
        """
        if placed.key is None:
            return
        if reply.error is None:
            self.quarantine.succeeded(placed.key, "reset", time.monotonic())
        elif first or reply.status in LOST:
            self._failed(placed.key, reply, placed.worker, seconds)

    def worker_died(self, worker: WorkerProcess) -> None:
        """Its spares are gone."""
        self.spares.lost(worker)

    async def _boot_spare(self, request: CreateRequest) -> Placed | Reply:
        key = key_of(request.environment, request.params, request.python)
        refusal = self.quarantine.refusal(key, time.monotonic())
        if refusal is not None:
            return Reply(503, error=refusal)
        return await self._start(key, request, DEFAULT_DEADLINES["create"])

    async def _start(self, key: Key, request: CreateRequest, deadline: float) -> Placed | Reply:
        """Start an instance; whatever happens, what was started is owned by someone."""
        start = time.perf_counter()
        placed: Placed | None = None
        try:
            async with asyncio.timeout(deadline):
                wanted = await self._catalogue.resolve(
                    request.environment, request.params, request.python, request.requires
                )
                placed = await self._workers.place(wanted, deadline)
            placed.key = key
            payload = {"params": wanted.params, "image_format": request.image_format}
            left = max(0.0, deadline - (time.perf_counter() - start))
            reply = await attempt(placed, "create", payload, left)
            placed.native = _native(reply.body) if reply.body else None
        except TimeoutError:
            reply = failed(504, "timeout", "create", f"no worker within {deadline:g} s", "")
        except ConfigurationError as error:
            reply = Reply(400, error=ErrorBody("configuration", "create", str(error), False))
        except (MintactError, OSError) as error:
            # OSError: no memory, no descriptor or no disk left for another process
            reply = failed(500, "crash", "create", str(error), "")
        except wire.WireError as error:
            reply = failed(500, "invalid", "create", str(error), "")
        except BaseException:
            self.quarantine.undecided(key, time.monotonic())
            if placed is not None:
                await asyncio.shield(self._own(self._abandon(placed)))
            raise
        self._metrics.observe("boot", reply.status, time.perf_counter() - start)
        return await self._judged(key, placed, reply, deadline)

    async def _judged(
        self, key: Key, placed: Placed | None, reply: Reply, deadline: float
    ) -> Placed | Reply:
        """The instance, or the reply of a boot that failed and was cleaned up after."""
        if reply.error is None and placed is not None:
            self.quarantine.succeeded(key, "create", time.monotonic())
            return placed
        if reply.error is not None and reply.error.kind == "configuration":
            self.quarantine.undecided(key, time.monotonic())
        else:
            self._failed(key, reply, None if placed is None else placed.worker, deadline)
        if placed is not None:
            await asyncio.shield(self._own(self.end(placed, healthy=reply.status not in LOST)))
        return reply

    def _failed(self, key: Key, reply: Reply, worker: WorkerProcess | None, seconds: float) -> None:
        assert reply.error is not None
        hurried = reply.error.kind == "timeout" and seconds < _PATIENCE
        lost = worker is not None and reply.status in LOST
        # siblings that died in one worker are one failure
        known = lost and worker is not None and worker.counted
        if worker is not None:
            worker.counted = worker.counted or lost
            worker.failed = worker.failed or not hurried
        if hurried or known:
            self.quarantine.undecided(key, time.monotonic())
            return
        streak = self.quarantine.failed(key, reply.error, time.monotonic())
        if streak.count >= FAILURES:
            why = (
                f"{key.environment} {key.params}: failed {streak.count} times in a row, "
                f"last at {reply.error.phase}: {reply.error.kind}: {reply.error.message}"
            )
            tail = reply.error.log_tail if worker is None else processes.tail(worker.log, 1000)
            # the disk of the logs may be full; the refusal is what matters
            with contextlib.suppress(OSError):
                streak.log = str(self._workers.logs.quarantine(key.file_name(), tail, why))

    async def _abandon(self, placed: Placed) -> None:
        """End an instance whose boot was given up; siblings in its worker live on."""
        await self.end(placed, healthy=placed.worker.seats > 1)


def _native(body: bytes) -> Any:
    """The spaces of a new instance.

    Raises:
        WireError: the worker sent something else.
    """
    values = wire.unpack(body)
    if not isinstance(values, dict):
        raise wire.WireError(f"expected a map, got {type(values).__name__}")
    return values.get("native")
