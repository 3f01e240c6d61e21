"""Importing a plugin's code so that it may raise, exit, print, hang or fork without harm to others.

What this cannot undo is a crash of native code, which ends the process; `suspects` remembers those.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TextIO, TypeVar

from mintact_platform.errors import ConfigurationError, PluginError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_exit = os._exit
_here = threading.local()
_unlimited = threading.Event()

SECONDS = "MINTACT_PLUGIN_SECONDS"
"""Variable that says how long an import may take."""
_SECONDS = 20.0

SHARED: tuple[tuple[Any, str], ...] = (
    *((json, name) for name in ("dump", "dumps", "load", "loads")),
    *((time, name) for name in ("time", "monotonic", "perf_counter", "sleep")),
    *((builtins, name) for name in ("open", "print")),
    (os, "fork"),
)
"""Functions that all plugins share and none may replace while it is imported."""
_STREAMS = ("standard input", "standard output", "standard error")
_IMPORTS = threading.Lock()
_TURN = 20.0
"""Seconds after which an import no longer waits for that of another thread, which may hang."""
_TICK = 0.1
"""Seconds between two looks at what is still being imported."""
_ENDING = 0.2
"""Seconds a thread that was told to end is waited for."""


class Hung(Exception):
    """A plugin's code did not end in time; `thread` may still run it."""

    def __init__(self, what: str, seconds: float, thread: threading.Thread) -> None:
        super().__init__(f"{what} did not end within {seconds:g} s")
        self.thread = thread


class Piece(Protocol[T_co]):
    """Code of a plugin, called once.

    Attributes:
        what: what it is doing, for errors.
        package: top-level package of the plugin.
    """

    what: str
    package: str

    def __call__(self) -> T_co:
        """Run it."""
        ...


class Outcome(NamedTuple, Generic[T]):
    """How a piece of code ended.

    Attributes:
        result: what it returned.
        error: what it raised, of whatever type; `Hung` where it did not end; else None.
    """

    result: T | None
    error: BaseException | None


def time_limit(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds an import may take.

    Raises:
        ConfigurationError: a number of seconds that is none.
    """
    text = environ.get(SECONDS) or str(_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise ConfigurationError(f"{text!r} is no number of seconds", where=SECONDS)
    return seconds


def import_in_place() -> None:
    """From now on this process imports where it is asked to, for as long as its parent lets it.

    For workers: whoever starts them gives them a deadline, and what they import may be heavy.
    """
    _unlimited.set()


def imported(piece: Piece[T]) -> Outcome[T]:
    """Import a plugin's code, on a thread of its own, and undo what it does besides.

    What it prints goes to standard error, its standard input is empty, `os._exit` raises; whoever
    asks for an interrupt gets it, and a plugin that raises one does not. One import at a time,
    unless one takes very long. The limit is for the time in which no further module comes, since
    a large library takes its time on a cold disk. What fails off the main thread is tried on it,
    where that is the caller's.

    Returns:
        Among its errors `PluginError`: it replaced one of the `SHARED` functions, or closed a
        standard stream.
    """
    if getattr(_here, "contained", 0) == os.getpid():
        # part of another import, whose limit counts
        return _attempt(piece)
    # two threads inside one package can each find the other's half of it
    alone = _IMPORTS.acquire(timeout=_TURN)
    try:
        if _unlimited.is_set():
            with _STAGE:
                return _attempt(piece)
        outcome = Airlock(time_limit(), patient=True).run([piece])[0]
        if _asks_for_the_main_thread(outcome.error) and _is_main_thread():
            with _STAGE:
                outcome = _attempt(piece)
        return outcome
    finally:
        if alone:
            _IMPORTS.release()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _asks_for_the_main_thread(error: BaseException | None) -> bool:
    """Whether an import failed since it set a signal's handler, or asked for an event loop."""
    if not isinstance(error, (ValueError, RuntimeError)):
        return False
    return "main thread" in str(error) or "no current event loop" in str(error)


class Airlock:
    """A thread on which plugins' code runs. One that hangs is left behind, another takes its place.

    Args:
        seconds: each piece of code may take.
        patient: a piece that still brings modules may take longer.
    """

    def __init__(self, seconds: float, *, patient: bool = False) -> None:
        self.seconds, self._patient = seconds, patient

    def run(self, pieces: Sequence[Piece[T]]) -> list[Outcome[T]]:
        """Run one after the other, whatever becomes of those before."""
        batch: _Batch[T] = _Batch(pieces, 0, [])
        with _STAGE:
            while True:
                thread = threading.Thread(target=batch.run, daemon=True, name="plugins")
                thread.start()
                late = self._wait(batch)
                if late is None:
                    return batch.outcomes
                batch = batch.without(late, Hung(pieces[late].what, self.seconds, thread))
                if _can_be_ended(thread, pieces[late].package):
                    _end(thread)

    def _wait(self, batch: _Batch[Any]) -> int | None:
        """The index of a piece that takes too long, None when all are done.

        Time in which the whole process stood still is nobody's: each look counts as one tick.
        """
        tick = min(_TICK, self.seconds)
        looked_at, left, modules = -1, 0.0, 0
        while not batch.done.wait(tick):
            left -= tick
            index, loaded = batch.now, len(sys.modules)
            if index != looked_at or (self._patient and loaded > modules):
                looked_at, left, modules = index, self.seconds, loaded
            if left <= 0:
                return index
        return None


class _Batch(Generic[T]):
    """What one thread has to run: those pieces that have no outcome yet.

    The thread hands nothing over in between, since each time would cost as much as an import.
    """

    def __init__(
        self, pieces: Sequence[Piece[T]], first: int, outcomes: Sequence[Outcome[T]]
    ) -> None:
        self._pieces = pieces
        self.outcomes = list(outcomes)
        self.now = first
        self.done = threading.Event()
        self._left_behind = False

    def run(self) -> None:
        for index in range(self.now, len(self._pieces)):
            self.now = index
            outcome = _attempt(self._pieces[index])
            if self._left_behind:
                return
            self.outcomes.append(outcome)
        self.done.set()

    def without(self, late: int, hung: Hung) -> _Batch[T]:
        """The batch of another thread, which goes on after a piece that hangs."""
        self._left_behind = True
        return _Batch(self._pieces, late + 1, [*self.outcomes[:late], Outcome(None, hung)])


def _attempt(piece: Piece[T]) -> Outcome[T]:
    try:
        with _undone():
            return Outcome(piece(), None)
    except BaseException as error:
        return Outcome(None, error)


def _can_be_ended(thread: threading.Thread, package: str) -> bool:
    """Whether the plugin's own code hangs: half an import of another's would be everyone's."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return str(frame.f_globals.get("__name__", "")).partition(".")[0] == package
        frame = frame.f_back
    return True


def _end(thread: threading.Thread) -> None:
    """Ask a thread to end: a loop would slow this process for ever."""
    # imported here: a hundredth of a second that only this case is worth
    import ctypes

    ident, asked = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, asked)
    thread.join(_ENDING)


class _Before(NamedTuple):
    """What the process had before a plugin's code ran."""

    pid: int
    shared: tuple[Any, ...]
    streams: tuple[bool, ...]


@contextmanager
def _undone() -> Iterator[None]:
    before = _Before(os.getpid(), _shared(), _open_streams())
    outer, _here.contained = getattr(_here, "contained", 0), before.pid
    failed: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failed = error
    if os.getpid() != before.pid:
        # a copy of this process that the code forked: nobody waits for what it would do
        _exit(0)
    _here.contained = outer
    if harm := list(_put_back(before)):
        raise PluginError(f"{' and '.join(harm)}, which everyone shares") from failed
    if failed is not None:
        raise failed


def _put_back(before: _Before) -> Iterator[str]:
    for (module, name), value in zip(SHARED, before.shared, strict=True):
        if getattr(module, name, None) is not value:
            setattr(module, name, value)
            yield f"replaces {module.__name__}.{name}"
    for descriptor, was_open in enumerate(before.streams):
        if was_open and not _is_open(descriptor):
            # else the next file opened would become that stream
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != descriptor:
                os.dup2(nothing, descriptor)
                os.close(nothing)
            yield f"closes {_STREAMS[descriptor]}"


def _shared() -> tuple[Any, ...]:
    return tuple([getattr(module, name, None) for module, name in SHARED])


def _open_streams() -> tuple[bool, ...]:
    return tuple([_is_open(descriptor) for descriptor in range(len(_STREAMS))])


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


class _Stage:
    """Streams and an exit for plugins' code, in place of the process's own while any of it runs.

    These belong to the whole process, so that there is one stage, whoever enters it first or last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._kept: tuple[Any, ...] = ()
        self._aside: TextIO | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._kept = sys.stdin, sys.stdout, os._exit
                sys.stdin, sys.stdout = io.StringIO(), self._standard_error()
                os._exit = _refuse_exit

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.stdin, sys.stdout, os._exit = self._kept

    def _standard_error(self) -> TextIO:
        """A stream that a plugin may keep or close: it outlives the stage, and is ours alone."""
        if self._aside is None or self._aside.closed:
            usable = 2 if _is_open(2) else os.open(os.devnull, os.O_WRONLY)
            self._aside = open(usable, "w", buffering=1, errors="replace", closefd=False)
        return self._aside


_STAGE = _Stage()


def _refuse_exit(status: int) -> NoReturn:
    if getattr(_here, "contained", 0) == os.getpid():
        raise PluginError(f"calls os._exit({status})")
    _exit(status)
