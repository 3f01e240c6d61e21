"""Running a judge: deadline, bounded retry, concurrency, and never an invented verdict.

What a judge may be, and how it may misbehave, is dealt with here, so that its caller sees a
`Verdict` or a `JudgeError` and nothing else. A judge that hangs, raises, exits, swallows its
cancellation or returns something that is no verdict costs at most its deadline times its attempts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from mintact_platform.errors import JudgeError
from mintact_platform.judging.judge import Judge, JudgeFunction, JudgeView
from mintact_platform.judging.threads import Threads
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import Verdict

_GRACE = 1.0
_log = logging.getLogger(__name__)


class JudgeRunner:
    """One judge of a run, shared by all its trajectories.

    Args:
        judge: a function, a class (made here), or an object with `judge`; async or not.
        name: the judge's registered name; written on its verdicts.
        deadline: seconds of one attempt.
        retries: attempts after the first.
        concurrency: judgements at a time; also the most threads a synchronous judge gets.
        backoff: seconds before the first retry, doubled each time.
    """

    def __init__(
        self,
        judge: JudgeFunction | Judge | Callable[[], Judge],
        *,
        name: str,
        deadline: float,
        retries: int = 1,
        concurrency: int = 8,
        backoff: float = 0.2,
    ) -> None:
        self.name, self.deadline, self.retries, self.backoff = name, deadline, retries, backoff
        target: Any = judge
        self._target = target() if inspect.isclass(_unbound(target)) else target
        self._slots = asyncio.Semaphore(concurrency)
        self._threads = Threads(concurrency, name=f"judge {name}")
        self._opening = asyncio.Lock()
        self._is_open = False
        self._abandoned: set[asyncio.Future[Any]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the judge if it has something to open; done by the first judgement otherwise.

        Raises:
            JudgeError: it failed or took longer than the deadline.
        """
        async with self._opening:
            if not self._is_open:
                await self._optional("open")
                self._is_open = True

    async def close(self) -> None:
        """Close the judge; a failure is logged, for nothing can be done about it any more."""
        try:
            if self._is_open:
                await self._optional("close")
        except JudgeError as error:
            _log.warning("%s", error)
        finally:
            self._is_open = False
            for task in self._abandoned:
                task.cancel()

    async def judge(self, task: Task, view: JudgeView) -> Verdict:
        """The judge's verdict, with the judge's name and the time it took on it.

        Args:
            task: what was to be done.
            view: the finished trajectory; the judge gets a copy.

        Raises:
            JudgeError: every attempt failed; the last cause is in its text.
        """
        async with self._slots:
            await self.open()
            start, failure = time.monotonic(), ""
            for attempt in range(self.retries + 1):
                if attempt:
                    await asyncio.sleep(self.backoff * 2 ** (attempt - 1))
                try:
                    own = view.copy()
                    result = await self._call(self._method("judge"), own.task, own)
                    verdict = checked(result, turns=len(view.turns))
                except _Failed as error:
                    failure = str(error)
                else:
                    seconds = time.monotonic() - start
                    return replace(verdict, judge=self.name, seconds=seconds)
        attempts = f"{self.retries + 1} attempts" if self.retries else "1 attempt"
        raise self._error(f"no verdict on {view.trajectory.id} after {attempts}: {failure}")

    async def _optional(self, method: str) -> None:
        function = getattr(self._target, method, None)
        if callable(function) and hasattr(self._target, "judge"):
            try:
                await self._call(function)
            except _Failed as error:
                raise self._error(f"{method} failed: {error}") from error

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._target, name, self._target)
        return method

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call within the deadline, in a task of its own that may be left behind.

        Raises:
            _Failed: for whatever went wrong in it.
        """
        task = asyncio.ensure_future(self._guarded(function, *args))
        try:
            await asyncio.wait({task}, timeout=self.deadline)
            if not task.done():
                raise _Failed(f"no answer within {self.deadline:g} s")
            if task.cancelled():
                raise _Failed("it cancelled itself")
            return task.result()
        finally:
            await self._put_away(task)

    async def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            if inspect.iscoroutinefunction(_plain(function)):
                return await function(*args)
            result = await self._threads.run(functools.partial(function, *args))
            return await result if inspect.isawaitable(result) else result
        # a judge that exits must not take the run with it
        except (Exception, SystemExit) as error:
            raise _Failed(f"{type(error).__name__}: {error}".splitlines()[0]) from error

    async def _put_away(self, task: asyncio.Future[Any]) -> None:
        """End an unfinished call; one that refuses is kept aside, so that the run goes on."""
        if task.done():
            return
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._forget)
        await asyncio.wait({task}, timeout=_GRACE)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()

    def _error(self, what: str) -> JudgeError:
        return JudgeError(what, where=f"judge {self.name!r}", next="the trajectory is masked")


def checked(result: Any, *, turns: int) -> Verdict:
    """The verdict with plain finite numbers, or the reason why it is none.

    Args:
        result: what a judge returned.
        turns: number of turns, for turn rewards.

    Raises:
        _Failed: it is no verdict, or its numbers cannot be recorded.
    """
    if not isinstance(result, Verdict):
        raise _Failed(f"returned {type(result).__name__}, not a Verdict")
    rewards = result.turn_rewards
    if rewards is not None and len(rewards) != turns:
        raise _Failed(f"gave {len(rewards)} turn rewards for {turns} turns")
    if not isinstance(result.components, Mapping):
        raise _Failed("components must be a mapping of numbers")
    return replace(
        result,
        reward=None if result.reward is None else _number("reward", result.reward),
        components={str(k): _number(f"component {k!r}", v) for k, v in result.components.items()},
        turn_rewards=None
        if rewards is None
        else tuple(_number("a turn reward", reward) for reward in rewards),
        cost=None if result.cost is None else _number("cost", result.cost),
    )


class _Failed(Exception):
    """One attempt gave no verdict."""


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise _Failed(f"{name} is {value!r}, not a number") from None
    if not math.isfinite(number):
        raise _Failed(f"{name} is {number}")
    return number


def _unbound(target: Any) -> Any:
    return _unbound(target.func) if isinstance(target, functools.partial) else target


def _plain(function: Any) -> Any:
    """What is really called: through partials and callable objects."""
    target = _unbound(function)
    if inspect.isroutine(target) or inspect.isclass(target):
        return target
    return getattr(target, "__call__", target)  # noqa: B004
