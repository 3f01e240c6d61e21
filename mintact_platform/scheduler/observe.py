"""Observers: plugins told what happened, on a thread of their own, never able to hurt a run."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mintact_platform.config import RunConfig
from mintact_platform.judging.judge import JudgeView
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.registry.guard import Airlock, Hung
from mintact_platform.registry.lines import one_line
from mintact_platform.registry.names import Registry

LIMIT = 1024
STRIKES = 3
SECONDS = 5.0
"""One call of an observer may take."""


def configure(registry: Registry, config: RunConfig, *, seconds: float = SECONDS) -> list[str]:
    """Tell the plugins which run this is; what fails is written on its row and goes no further.

    Args:
        registry: whose plugins are told.
        config: of the run.
        seconds: each may take.

    Returns:
        One line about each that failed.
    """
    found = registry.manager.hook.configure.get_hookimpls()
    calls = [_Call(one.plugin_name, "configure", one, {"config": config}) for one in found]
    outcomes = Airlock(seconds).run(calls)
    return [
        _write_on_row(registry, call.plugin, _in_configure(outcome.error))
        for call, outcome in zip(calls, outcomes, strict=True)
        if outcome.error is not None
    ]


def _in_configure(error: BaseException) -> str:
    return one_line(error) if isinstance(error, Hung) else f"configure: {one_line(error)}"


@dataclass
class _Call:
    """One observer that is to be told one thing; calling it tells it."""

    plugin: str
    what: str
    implementation: Any
    values: dict[str, Any]
    package: str = ""

    def __call__(self) -> None:
        # what it is given is its own, so that it can change nothing
        own = [_own(self.values[name]) for name in self.implementation.argnames]
        self.implementation.function(*own)


class Observers:
    """Calls the observer hooks, one plugin at a time, behind a bounded queue.

    An exception is written on the plugin's row; three in a row, or one call that does not end,
    silence that plugin's observers. A full queue drops the notice and counts it.

    Args:
        registry: whose plugins are told.
        limit: notices that may wait.
        seconds: one call may take.
        clock: monotonic seconds, by which calls are timed.

    Attributes:
        dropped: notices dropped because the queue was full.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        limit: int = LIMIT,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = registry
        self.dropped = 0
        self._seconds, self._clock = seconds, clock
        self._strikes: Counter[str] = Counter()
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(limit)
        self._calls: deque[_Call] = deque()
        self._running: tuple[_Call, float] | None = None
        # a call ends or is left behind, and not both
        self._ending = threading.Lock()
        self._begin()

    def notify(self, hook: str, **values: Any) -> None:
        """Tell everyone, later."""
        self._leave_behind_what_hangs()
        try:
            self._queue.put_nowait((hook, values))
        except queue.Full:
            self.dropped += 1

    def blame(self, plugin: str, error: str) -> None:
        """Write on a plugin's row what it did wrong elsewhere."""
        _write_on_row(self.registry, plugin, error)

    def close(self, *, seconds: float = SECONDS) -> list[str]:
        """Let the queue run empty for at most so long.

        Returns:
            One line about each plugin that was silenced, and one about dropped notices.
        """
        end = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        while self._thread.is_alive() and time.monotonic() < end:
            self._thread.join(min(0.05, seconds))
            self._leave_behind_what_hangs()
        return [*self._silenced(), *self._dropped()]

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True, name="observers")
        self._thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            while self._calls and self._thread is me:
                self._call(self._calls.popleft())
            if self._thread is me:
                notice = self._queue.get()
                if notice is None:
                    return
                self._calls.extend(self._told(*notice))

    def _told(self, hook: str, values: dict[str, Any]) -> list[_Call]:
        """Who is to be told of a notice."""
        found = getattr(self.registry.manager.hook, hook).get_hookimpls()
        return [_Call(one.plugin_name, hook, one, values) for one in found]

    def _call(self, call: _Call) -> None:
        if self._strikes[call.plugin] >= STRIKES:
            return
        start = self._clock()
        self._running = running = call, start
        failed: BaseException | None = None
        try:
            call()
        # whatever it raises, `SystemExit` too, concerns this plugin only
        except BaseException as error:
            failed = error
        with self._ending:
            if self._running is not running:
                return
            self._running = None
            self._spent[call.plugin] += self._clock() - start
            self._strikes[call.plugin] = 0 if failed is None else self._strikes[call.plugin] + 1
            if failed is not None:
                _write_on_row(self.registry, call.plugin, f"observer: {one_line(failed)}")

    def _leave_behind_what_hangs(self) -> None:
        """A call that does not end keeps its thread; another one goes on with the rest."""
        with self._ending:
            if self._running is None or self._clock() - self._running[1] < self._seconds:
                return
            call, _ = self._running
            self._running = None
            self._strikes[call.plugin] = STRIKES
            self._spent[call.plugin] += self._seconds
            text = f"observer: {call.what} did not end within {self._seconds:g} s"
            _write_on_row(self.registry, call.plugin, text)
            self._begin()

    def _silenced(self) -> list[str]:
        errors = {row.distribution: row.error for row in self.registry.rows}
        return [
            f"plugin {name} was silenced: {errors.get(name)}"
            for name, strikes in sorted(self._strikes.items())
            if strikes >= STRIKES
        ]

    def _dropped(self) -> list[str]:
        if not self.dropped:
            return []
        name, seconds = max(self._spent.items(), key=lambda item: item[1], default=("", 0.0))
        slowest = f"; {name} took {seconds:.1f} s" if name else ""
        return [f"{self.dropped} notices to observers were dropped{slowest}"]


def _write_on_row(registry: Registry, plugin: str, error: str) -> str:
    for row in registry.rows:
        if row.distribution == plugin:
            row.error = error
    return f"plugin {plugin}: {error}"


def _own(value: Any) -> Any:
    """A copy; token arrays are not copied but made read-only."""
    if isinstance(value, RunConfig):
        return value.model_copy(deep=True)
    if isinstance(value, Trajectory):
        return JudgeView(value, _no_images).copy().trajectory
    return deepcopy(value)


def _no_images(digest: str, extension: str) -> bytes:
    raise FileNotFoundError(f"{digest}.{extension}")
