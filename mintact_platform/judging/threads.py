"""Synchronous code beside an event loop: few threads, and none that keeps the process alive."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """At most `limit` daemon threads at a time.

    A thread cannot be stopped. One that hangs keeps its place until it ends, so code that always
    hangs takes up `limit` threads and no more; an executor's threads would also be waited for
    when the interpreter exits.

    Args:
        limit: threads at a time.
        name: of the threads, for people who look at a stuck process.
    """

    def __init__(self, limit: int, *, name: str) -> None:
        self._places = asyncio.Semaphore(limit)
        self._name = name

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread; cancelling stops waiting for it, not the thread.

        Raises:
            RuntimeError: in place of what cannot pass through a future (`SystemExit`,
                `StopIteration`); anything else is raised as it is.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Any, error: Exception | None) -> None:
            self._places.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def work() -> None:
            result: Any = None
            failure: Exception | None = None
            try:
                result = context.run(function)
            except BaseException as error:
                failure = _portable(error)
            # the loop may be gone by the time a forgotten thread ends
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failure)

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return await answer


def _portable(error: BaseException) -> Exception:
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
