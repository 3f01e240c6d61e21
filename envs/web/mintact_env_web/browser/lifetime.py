"""Cancellation without leaks: what was begun elsewhere is finished or undone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mintact_platform.processes import finish

T = TypeVar("T")


async def owned(make: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]) -> T:
    """Await `make`; when cancelled meanwhile, let it end and undo what it made.

    The browser's driver goes on with a call whose caller was cancelled: its result would have no
    owner.

    Args:
        make: must have a deadline of its own.
        undo: gives the result back; must have a deadline of its own.
    """
    task = asyncio.get_running_loop().create_task(make)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finish(_undone(task, undo))
        raise


async def unless(ended: asyncio.Future[None], work: Coroutine[Any, Any, T]) -> T | None:
    """Await `work`, at most until `ended` is done; None when that came first.

    The driver forgets to answer some calls when the browser dies under them.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        waited: list[asyncio.Future[Any]] = [task, ended]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() and not ended.done() else None
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        elif not task.cancelled():
            task.exception()


async def _undone(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())
