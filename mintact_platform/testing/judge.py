"""`check_judge`: a valid verdict on whatever a run brings, in time, and nothing changed."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from mintact_platform.errors import JudgeError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.verdict import Verdict
from mintact_platform.testing.apart import Apart, Late
from mintact_platform.testing.conformance import ConformanceError, Subject, find, unbound
from mintact_platform.testing.trajectories import empty_trajectory, usual_trajectories

DEADLINE = 20.0
"""Seconds of one judgement, and of `open` and `close`."""
_BLOCKED = 2.0
_BEAT = 0.05
_LETS_WORK = "it lets others work meanwhile"
_PLAIN = "await what takes time, or write `def` for `async def`: a plain function gets a thread"


def check_judge(
    judge_or_name: str | Callable[..., Any],
    *,
    params: Mapping[str, Any] | None = None,
    trajectories: Iterable[JudgeView] | None = None,
) -> None:
    """Whether a judge gives a valid verdict on what it may meet in a run.

    Successes and failures, trajectories without state check, images or turns, each twice and all
    side by side. Whether it is right is not looked at.

    Args:
        judge_or_name: registered name, function or class.
        params: its parameters; a judge that asks a model is pointed to a server of the test.
        trajectories: to judge instead of the usual ones, see `sample_trajectory`.

    Raises:
        ConformanceError: the first thing that is wrong.
    """
    subject = find("judges", judge_or_name, params, given=_given)
    views = usual_trajectories() if trajectories is None else _numbered(trajectories)
    named = [(what, _Watched(view.trajectory, view.image_loader)) for what, view in views]
    nothing = empty_trajectory()
    empty = _Watched(nothing.trajectory, nothing.image_loader)
    apart = Apart(loop=True)
    try:
        checking = _Checking(subject)
        apart.call(lambda: checking.check(named, empty), DEADLINE * (len(named) + 3))
    except Late as late:
        seen = f"{late}: the event loop stands still"
        raise subject.error(_LETS_WORK, seen=seen, fix=_PLAIN) from None
    finally:
        apart.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Watched(JudgeView):
    """A view that keeps the copies it gives away, so that what was done to them shows."""

    given: list[JudgeView] = field(default_factory=list)

    def copy(self) -> JudgeView:
        """The copy a judge gets."""
        own = JudgeView.copy(self)
        self.given.append(own)
        return own


class _Checking:
    """A judge under its runner, what it raised kept with the lines that raised it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._raised: list[BaseException] = []

    async def check(self, named: list[tuple[str, _Watched]], empty: _Watched) -> None:
        """Judge everything: twice in a row, then side by side, then where nothing can be judged."""
        name = self._subject.name
        runner = JudgeRunner(self._judge(), name=name, deadline=DEADLINE, retries=0)
        try:
            await self._open(runner)
            for what, view in named:
                await self._judged(runner, what, view)
                await self._judged(runner, f"{what}, a second time", view)
            await asyncio.gather(*(self._judged(runner, what, view) for what, view in named))
            verdict = await self._judged(runner, "one without turns or state check", empty)
        finally:
            await runner.close()
        if verdict.label in ("success", "failure"):
            raise self._subject.error(
                "where there is nothing to judge it abstains",
                seen=f"{verdict.label!r} with reward {verdict.reward} on a trajectory whose "
                "environment failed before the first turn",
                fix='return Verdict("abstain", reason=…): that masks the rollout, while a '
                "failure would punish the agent for it",
            )

    async def _open(self, runner: JudgeRunner) -> None:
        try:
            await runner.open()
        except JudgeError as error:
            fix = f"open may take {DEADLINE:g} s and raises nothing; what it opens, close closes"
            if self._raised and isinstance(self._raised[0], Exception):
                raise self._subject.raised("it opens", self._raised[0], fix=fix) from error
            raise self._subject.error("it opens", seen=error.what, fix=fix) from error

    def _judge(self) -> Any:
        target = functools.partial(self._subject.target, **self._subject.params)
        if not inspect.isclass(unbound(target)):
            return self._recorded(target)
        try:
            made = target()
        except Exception as error:
            fix = "the constructor takes parameters; clients and models are opened in `open`"
            raise self._subject.raised("it can be made", error, fix=fix) from error
        if not callable(getattr(made, "judge", None)):
            raise self._subject.error(
                "a class has a method judge",
                seen=f"{self._subject.name} has none",
                fix="async def judge(self, task, trajectory) -> Verdict; open and close if needed",
            )
        names = [name for name in ("judge", "open", "close") if hasattr(made, name)]
        return SimpleNamespace(**{name: self._recorded(getattr(made, name)) for name in names})

    def _recorded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def awaited(*args: Any) -> Any:
            try:
                return await function(*args)
            except BaseException as error:
                self._raised.append(error)
                raise

        def called(*args: Any) -> Any:
            try:
                return function(*args)
            except BaseException as error:
                self._raised.append(error)
                raise

        return awaited if inspect.iscoroutinefunction(unbound(function)) else called

    async def _judged(self, runner: JudgeRunner, what: str, view: _Watched) -> Verdict:
        before = _content(view)
        self._raised.clear()
        slowest: list[float] = []
        watch = asyncio.get_running_loop().create_task(_watch(slowest))
        try:
            verdict = await runner.judge(view.task, view)
        except JudgeError as error:
            raise self._no_verdict(what, error) from error
        finally:
            watch.cancel()
            await asyncio.wait([watch])
        if any(_content(copy) != before for copy in view.given):
            raise self._subject.error(
                "it only reads what it judges",
                seen=f"it changed {what}",
                fix="copy before changing: list(trajectory.turns), dict(turn.calls[0])",
            )
        if max(slowest, default=0.0) > _BLOCKED:
            seen = f"it blocked the event loop for {max(slowest):.1f} s"
            raise self._subject.error(_LETS_WORK, seen=seen, fix=_PLAIN)
        return verdict

    def _no_verdict(self, what: str, error: JudgeError) -> ConformanceError:
        check = f"it gives a verdict on {what}"
        fix = (
            "return Verdict('success' | 'failure', reward=number), or 'abstain' where it cannot "
            f"say, within {DEADLINE:g} s; nothing that a trajectory lacks may raise"
        )
        if self._raised and isinstance(self._raised[0], Exception):
            return self._subject.raised(check, self._raised[0], fix=fix)
        return self._subject.error(check, seen=error.what.rpartition("attempt: ")[2], fix=fix)


async def _watch(slowest: list[float]) -> None:
    """Notice when the event loop stands still while the rest of the process goes on.

    Seconds are beats of another thread: what stops that one too, a busy machine, is nobody's fault,
    unless the loop's thread computed all the time.
    """
    beats, end = 0, threading.Event()

    def beat() -> None:
        nonlocal beats
        while not end.wait(_BEAT):
            beats += 1

    threading.Thread(target=beat, name="judge-watch", daemon=True).start()
    try:
        while True:
            start, computed = beats, time.thread_time()
            try:
                await asyncio.sleep(_BEAT)
            finally:
                # also when the judgement ended just as the loop went on
                stood = (beats - start - 1) * _BEAT
                slowest.append(max(stood, time.thread_time() - computed))
    finally:
        end.set()


def _given(target: Any) -> int:
    """Positional arguments of a judge: a class takes none, a function the two it judges by."""
    return 0 if inspect.isclass(unbound(target)) else 2


def _content(view: JudgeView) -> str:
    return json.dumps(view.trajectory.to_json(), sort_keys=True, default=repr)


def _numbered(views: Iterable[JudgeView]) -> Iterable[tuple[str, JudgeView]]:
    return ((f"trajectory {k}", view) for k, view in enumerate(views))
