"""The engine's thread: takes requests, runs forwards, ends requests, changes weights.

Everything here happens on that one thread; other threads leave messages. No state is locked.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from mintact_plugin_torch.engine.metrics import Counts
from mintact_plugin_torch.engine.request import Job
from mintact_plugin_torch.engine.runner import Runner

Result = TypeVar("Result")
PauseMode = Literal["abort", "retract", "in_place"]

FAILURES = 3
"""So many failed forwards in a row make the engine unhealthy."""

logger = logging.getLogger(__name__)


class Scheduler:
    """Continuous batching over a runner.

    Args:
        runner: the model.
        version: of its weights.

    Attributes:
        version: of the weights served now.
        paused: how generation is paused, None while it runs.
        counts: of requests and tokens since the start.
    """

    def __init__(self, runner: Runner, version: str) -> None:
        self.runner, self.version = runner, version
        self.paused: PauseMode | None = None
        self.counts = Counts()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._drained: list[Callable[[], None]] = []
        self._failures = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)

    # ---- called from any thread ----------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what runs is aborted."""
        self._inbox.put(self._stop)
        self._thread.join()

    @property
    def healthy(self) -> bool:
        """Whether the thread lives and its forwards succeed."""
        return self._thread.is_alive() and self._failures < FAILURES

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for one."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Queue a request; an earlier one under the same rid is aborted."""

        def take() -> None:
            self._abort(lambda other: other.rid == job.rid)
            self._waiting.append(job)

        self._inbox.put(take)

    def abort(self, chosen: Callable[[Job], bool]) -> None:
        """End requests with what they have generated."""
        self._inbox.put(lambda: self._abort(chosen))

    async def ask(self, call: Callable[[], Result], *, drained: bool = False) -> Result:
        """Run a call on the engine's thread, between two forwards.

        Args:
            call: what to run.
            drained: wait until nothing runs; new requests wait meanwhile. A pause counts as
                drained: what is paused then continues after the call.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def run() -> None:
            try:
                loop.call_soon_threadsafe(_resolve, future, call(), None)
            except Exception as error:
                loop.call_soon_threadsafe(_resolve, future, None, error)

        self._inbox.put((lambda: self._drained.append(run)) if drained else run)
        return await future

    # ---- called through `ask` ------------------------------------------------------------------

    def pause(self, mode: PauseMode) -> None:
        """Stop generating: end requests, take their slots away, or leave them as they are."""
        if mode == "abort":
            self._abort(lambda job: True)
        elif mode == "retract":
            for job in self._running:
                self._release(job)
                job.retractions += 1
            self._waiting.extendleft(reversed(self._running))
            self._running = []
        self.paused = mode

    def resume(self) -> None:
        """Generate again."""
        self.paused = None

    def flush(self) -> bool:
        """Empty the caches; False while requests hold slots."""
        if self._running:
            return False
        self.runner.forget()
        return True

    def change_weights(self, write: Callable[[], None], version: str | None) -> None:
        """Write new weights; what was computed with the old ones is never shared again."""
        write()
        if version is not None:
            self.version = version
        for job in self._running:
            job.stale = True
        self.runner.forget()

    # ---- the thread ----------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping:
            self._read_inbox()
            if self._drained and (self.paused or not self._running):
                for call in self._drained:
                    call()
                self._drained = []
            if self.paused or self._stopping:
                continue
            self._admit()
            if self._running:
                self._step()

    def _read_inbox(self) -> None:
        idle = self.paused or not (self._running or self._waiting or self._drained)
        try:
            self._inbox.get(block=bool(idle))()
            while True:
                self._inbox.get_nowait()()
        except queue.Empty:
            return

    def _admit(self) -> None:
        """Give free slots to waiting requests in order, but for those whose prefix is coming."""
        if self._drained:
            return
        slots = self.runner.slots
        deferred = []
        for _ in range(2 * (slots.count - slots.busy)):
            if not self._waiting:
                break
            job = self._waiting.popleft()
            reservation = slots.reserve(job.prompt.keys[: job.total])
            if reservation is None:
                deferred.append(job)
                continue
            job.slot, job.stale = reservation.slot, False
            if not job.retractions:
                job.cached = reservation.cached
                self.counts.prompt += job.prompt.length
                self.counts.cached += job.cached
            self._running.append(job)
        self._waiting.extendleft(reversed(deferred))

    def _step(self) -> None:
        try:
            self.runner.step(self._running, self.version)
            self._failures = 0
        except Exception as error:
            logger.exception("a forward failed")
            self._failures += 1
            for job in self._running:
                job.stale = True
                job.finish = _aborted(f"{type(error).__name__}: {error}", status=500)
        told = [job for job in self._running if job.finish is not None or job.stream]
        for job in told:
            if job.finish is not None:
                self._release(job)
                self._count(job)
        # whoever learns of an end finds it in the loads and counts too
        self._running = [job for job in self._running if job.finish is None]
        for job in told:
            job.changed(job)

    def _abort(self, chosen: Callable[[Job], bool]) -> None:
        ended = [job for job in (*self._running, *self._waiting) if chosen(job)]
        for job in ended:
            job.finish = _aborted("Aborted")
            if job.slot >= 0:
                self._release(job)
            self._count(job)
        self._running = [job for job in self._running if job.finish is None]
        self._waiting = deque(job for job in self._waiting if job.finish is None)
        for job in ended:
            job.changed(job)

    def _release(self, job: Job) -> None:
        keys = None if job.stale else job.prompt.keys[: job.total]
        self.runner.slots.release(job.slot, keys)
        job.slot = -1

    def _count(self, job: Job) -> None:
        self.counts.requests += 1
        self.counts.generated += job.generated
        self.counts.aborted += job.finish is not None and job.finish["type"] == "abort"

    def _stop(self) -> None:
        self._abort(lambda job: True)
        self._stopping = True


def _aborted(message: str, status: int | None = None) -> dict[str, Any]:
    kind = None if status is None else "InternalServerError"
    return {"type": "abort", "message": message, "status_code": status, "err_type": kind}


def _resolve(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
