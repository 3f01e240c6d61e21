"""A thread on which one plugin object lives, so that every call into it has a deadline."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]
_JOIN = 5.0


class Late(Exception):
    """A call did not end in time; its thread is left behind."""


class Apart:
    """Calls work on a thread of its own; on its event loop where asked for.

    A plain thread has no event loop, as a worker's has none: libraries refuse to be used
    synchronously where one runs.

    Args:
        loop: run an event loop, for work that is awaited.
    """

    def __init__(self, *, loop: bool) -> None:
        self._work: queue.SimpleQueue[tuple[Work, concurrent.futures.Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop() if loop else None
        self._thread = threading.Thread(target=self._run, name="conformance", daemon=True)
        self._thread.start()

    def call(self, work: Work, seconds: float) -> Any:
        """What the work returns or raises.

        Raises:
            Late: it took longer.
        """
        future: concurrent.futures.Future[Any]
        if self._loop is not None:
            future = asyncio.run_coroutine_threadsafe(_outcome(work), self._loop)
        else:
            future = concurrent.futures.Future()
            self._work.put((work, future))
        try:
            result, error = future.result(seconds)
        except concurrent.futures.CancelledError:
            raise RuntimeError("it cancelled itself") from None
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise Late(f"no answer within {seconds:g} s") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread; one that hangs is left behind."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._work.put(None)
        self._thread.join(_JOIN)

    def _run(self) -> None:
        if self._loop is not None:
            asyncio.set_event_loop(self._loop)
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            return
        while (item := self._work.get()) is not None:
            work, future = item
            if future.set_running_or_notify_cancel():
                future.set_result(_attempt(work))


def _attempt(work: Work) -> tuple[Any, BaseException | None]:
    # whatever plugin code raises, SystemExit included, is the caller's to judge
    try:
        return work(), None
    except BaseException as error:
        return None, error


async def _outcome(work: Work) -> tuple[Any, BaseException | None]:
    try:
        result = work()
        return (await result if inspect.isawaitable(result) else result), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
