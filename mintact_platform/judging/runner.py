"""Running a judge: deadline, retry, rate, concurrency, cache, and never an invented verdict.

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
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from mintact_platform.errors import JudgeError
from mintact_platform.judging.attempts import Failed, Tries, failed_by
from mintact_platform.judging.cache import JudgementCache, identity_of, judgement_key
from mintact_platform.judging.judge import Judge, JudgeFunction, JudgeView
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.threads import Threads
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.parameters import made

_GRACE = 1.0
_REASON = 2000
"""Characters of a reason that are kept."""
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
        cache: verdicts that are known already; used if the judge declares itself `cacheable`.
        rate: how often the judge may be asked; None sets no limit.
        sleep: waits between attempts.

    Raises:
        PluginError: the judge's class cannot be made.
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
        cache: JudgementCache | None = None,
        rate: RateLimit | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name, self.deadline, self.retries, self.backoff = name, deadline, retries, backoff
        self._given: Any = judge
        self._target = _made(judge, name)
        self._rate = rate or RateLimit(sleep=sleep)
        self._cache = cache if self.cacheable else None
        self._sleep = sleep
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

    @property
    def function(self) -> Callable[..., Any]:
        """What is called with a task and a trajectory."""
        return self._method("judge")

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

    @property
    def cacheable(self) -> bool:
        """Whether the judge declares that its verdicts may be kept."""
        return bool(getattr(_unbound(self._target), "cacheable", False))

    @property
    def remote(self) -> bool:
        """Whether the judge declares that it asks somebody over the network."""
        return bool(getattr(_unbound(self._target), "remote", False))

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """Who judges, for a cache's keys; what a composite is made of included. Blocks."""
        parts = getattr(_unbound(self._target), "identity", None)
        return {**identity_of(self.name, self._given), "parts": parts}

    async def judge(self, task: Task, view: JudgeView) -> Verdict:
        """The judge's verdict, with the judge's name and the time it took on it.

        Args:
            task: what was to be done.
            view: the finished trajectory; the judge gets a copy.

        Raises:
            JudgeError: every attempt failed; the last cause is in its text.
        """
        if self._cache is None:
            return await self._judge(view)
        start = time.monotonic()
        key = await asyncio.to_thread(lambda: judgement_key(self.identity, view))
        kept = await self._kept(key, view)
        if kept is None:
            kept = await self._judge(view)
            if key is not None:
                await asyncio.to_thread(self._cache.put, key, kept)
            return kept
        cost = None if kept.cost is None else 0.0
        return replace(kept, judge=self.name, seconds=time.monotonic() - start, cost=cost)

    async def _kept(self, key: str | None, view: JudgeView) -> Verdict | None:
        if key is None or self._cache is None:
            return None
        kept = await asyncio.to_thread(self._cache.get, key)
        try:
            return None if kept is None else checked(kept, turns=len(view.turns))
        except Failed:
            return None

    async def _judge(self, view: JudgeView) -> Verdict:
        """Attempt until there is a verdict; a wait that the judge asks for is no attempt."""
        tries = Tries(self.retries, self.backoff, self.deadline * (self.retries + 1))
        async with self._slots:
            await self.open()
            start = time.monotonic()
            while not tries.over:
                await self._rate.wait()
                try:
                    verdict = await self._attempt(view)
                    return replace(verdict, judge=self.name, seconds=time.monotonic() - start)
                except Failed as error:
                    wait = tries.count(error)
                if wait is not None:
                    self._rate.pause(wait)
                elif not tries.over:
                    await self._sleep(tries.rest)
        raise self._error(f"no verdict on {view.trajectory.id} {tries}")

    async def _attempt(self, view: JudgeView) -> Verdict:
        own = view.copy()
        result = await self._call(self._method("judge"), own.task, own)
        try:
            return checked(result, turns=len(view.turns))
        except (TypeError, ValueError, AttributeError) as error:
            raise failed_by(error) from error

    async def _optional(self, method: str) -> None:
        function = getattr(self._target, method, None)
        if callable(function) and hasattr(self._target, "judge"):
            try:
                await self._call(function)
            except Failed as error:
                raise self._error(f"{method} failed: {error}") from error

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._target, name, self._target)
        return method

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call within the deadline, in a task of its own that may be left behind.

        Raises:
            Failed: for whatever went wrong in it.
        """
        task = asyncio.ensure_future(self._guarded(function, *args))
        try:
            await asyncio.wait({task}, timeout=self.deadline)
            if not task.done():
                raise Failed(f"no answer within {self.deadline:g} s")
            if task.cancelled():
                raise Failed("it cancelled itself")
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
            raise failed_by(error) from error

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
        Failed: it is no verdict, or its numbers cannot be recorded.
    """
    if not isinstance(result, Verdict):
        raise Failed(f"returned {type(result).__name__}, not a Verdict")
    rewards = result.turn_rewards
    if rewards is not None and len(rewards) != turns:
        raise Failed(f"gave {len(rewards)} turn rewards for {turns} turns")
    if not isinstance(result.components, Mapping):
        raise Failed("components must be a mapping of numbers")
    return replace(
        result,
        reward=None if result.reward is None else _number("reward", result.reward),
        components={str(k): _number(f"component {k!r}", v) for k, v in result.components.items()},
        turn_rewards=None
        if rewards is None
        else tuple(_number("a turn reward", reward) for reward in rewards),
        cost=None if result.cost is None else _number("cost", result.cost),
        reason=_line(result.reason),
    )


def _made(judge: Any, name: str) -> Any:
    if not inspect.isclass(_unbound(judge)):
        return judge
    return made(judge, where=f"judge {name!r}")


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Failed(f"{name} is {value!r}, not a number") from None
    if not math.isfinite(number):
        raise Failed(f"{name} is {number}")
    return number


def _line(text: Any) -> str:
    """One line that a database takes: no half characters, no end of line, not too long."""
    return " ".join(str(text or "").split())[:_REASON].encode(errors="replace").decode()


def _unbound(target: Any) -> Any:
    return _unbound(target.func) if isinstance(target, functools.partial) else target


def _plain(function: Any) -> Any:
    """What is really called: through partials and callable objects."""
    target = _unbound(function)
    if inspect.isroutine(target) or inspect.isclass(target):
        return target
    return getattr(target, "__call__", target)  # noqa: B004
