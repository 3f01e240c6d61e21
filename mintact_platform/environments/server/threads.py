"""Threads for work that may never end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OwnThreads(Executor):
    """Runs each piece of work on a thread of its own, for `loop.run_in_executor`.

    Work that hangs keeps neither other work from running nor the process from ending.
    """

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin the work."""
        future: Future[T] = Future()
        run: tuple[Any, ...] = (future, work, args, kwargs)
        threading.Thread(target=_run, args=run, daemon=True, name="own").start()
        return future


def _run(future: Future[Any], work: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)
