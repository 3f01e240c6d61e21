"""One environment inside a worker: built, driven, read and closed, inline, on a thread or awaited.

Whatever an environment does wrong becomes a failed call here, and its replies are packed bytes,
which the server passes through unopened.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.wire import ImageFormat
from mintact_platform.environments.server.remains import remove
from mintact_platform.environments.worker.encoding import (
    InvalidObservation,
    has_pixels,
    plain,
    reset_values,
    step_values,
)
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

_CLONE_FS = 0x200
_MAX_MESSAGE = 2000
"""Characters of an exception's first line."""
_RAISED = (Exception, SystemExit, KeyboardInterrupt)
"""What an environment may raise without taking its siblings along."""

Answer: TypeAlias = Callable[[int, bool, bytes], None]
"""Takes the number of a call, whether it went well, and the packed reply; from any thread."""


class Instance(Protocol):
    """An environment that carries out calls one after the other."""

    def submit(self, call: int, do: str, payload: Mapping[str, Any]) -> None:
        """Begin `create`, `reset`, `step`, `evaluate` or `close`; the answer comes by itself."""
        ...


def host(
    target: Callable[..., Any],
    directory: Path,
    image_format: ImageFormat,
    answer: Answer,
    *,
    inline: bool,
) -> Instance:
    """An instance that is yet to be created.

    Args:
        target: class or factory of the environment, parameters by keyword.
        directory: its own, made when it runs on a thread of its own.
        image_format: encoding of screenshots.
        answer: told the replies.
        inline: its methods never wait, so that it needs no thread.
    """
    driver = Driver(target, image_format)
    if is_async(target):
        return Awaited(driver, directory, answer)
    return Inline(driver, answer) if inline else Threaded(driver, directory, answer)


class Driver:
    """The calls of an environment, without a thread or a task.

    Attributes:
        environment: None before `create`.
    """

    def __init__(self, target: Callable[..., Any], image_format: ImageFormat) -> None:
        self._target = target
        self._format = image_format
        self._episode = ""
        self._pid = os.getpid()
        self._packer = wire.Packer()
        self.environment: Any = None

    def attempt(self, do: str, payload: Mapping[str, Any]) -> tuple[bool, bytes]:
        """Whether the call went well, and the packed reply."""
        try:
            return True, self.read(do, self.start(do, payload))
        except _RAISED as error:
            return False, self.refuse(error)

    def start(self, do: str, payload: Mapping[str, Any]) -> Any:
        """Call the environment's method; what it returns.

        Raises:
            ConfigurationError: `create` with a parameter it does not take, or without one it needs.
        """
        if do == "step":
            return self.environment.step(payload["action"])
        if do == "reset":
            self._episode = payload.get("episode", "")
            options = {"task": payload["task"]}
            return self.environment.reset(seed=payload["seed"], options=options)
        if do == "evaluate":
            method = _evaluate(self.environment)
            return method() if method is not None else None
        if do == "close":
            return self.environment.close() if self.environment is not None else None
        return self._create(payload["params"])

    def read(self, do: str, returned: Any) -> bytes:
        """The packed reply.

        Raises:
            InvalidObservation: the environment returned garbage.
        """
        self._end_copy()
        try:
            if do == "step":
                return self._packer.pack(step_values(returned, self._format))
            if do == "reset":
                values = reset_values(returned, self._format)
                return self._packer.pack({**values, "episode": self._episode})
            if do == "evaluate":
                return wire.pack({"check": _check(returned)})
        except wire.WireError as error:
            raise InvalidObservation(str(error)) from error
        if do == "create":
            self.environment = returned
            return wire.pack({"native": _native(returned)})
        return wire.pack({})

    def refuse(self, error: BaseException) -> bytes:
        """The packed reply to a call that raised."""
        self._end_copy()
        return refuse(error)

    def _end_copy(self) -> None:
        """End a copy of the worker that the environment forked: only the worker itself answers."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _create(self, params: Mapping[str, Any]) -> Any:
        try:
            inspect.signature(self._target).bind(**params)
        except TypeError as error:
            raise ConfigurationError(str(error), where="environment's parameters") from None
        return self._target(**params)


class Inline:
    """Runs on the worker's loop: the fastest, for environments that never wait.

    They share the worker's working directory, and one that hangs takes its siblings along.
    """

    def __init__(self, driver: Driver, answer: Answer) -> None:
        self._driver, self._answer = driver, answer

    def submit(self, call: int, do: str, payload: Mapping[str, Any]) -> None:
        """Do it now."""
        self._answer(call, *self._driver.attempt(do, payload))


class Threaded:
    """Runs on a thread of its own, in a directory of its own; hung, it blocks only itself."""

    def __init__(self, driver: Driver, directory: Path, answer: Answer) -> None:
        self._driver, self._answer, self._directory = driver, answer, directory
        self._calls: SimpleQueue[tuple[int, str, Mapping[str, Any]]] = SimpleQueue()
        self._awaited: Awaited | None = None
        threading.Thread(target=self._run, name=directory.name, daemon=True).start()

    def submit(self, call: int, do: str, payload: Mapping[str, Any]) -> None:
        """Queue it for the thread."""
        if self._awaited is not None:
            self._awaited.submit(call, do, payload)
        else:
            self._calls.put((call, do, payload))

    def _run(self) -> None:
        _enter(self._directory)
        do = ""
        while do != "close":
            call, do, payload = self._calls.get()
            ok, body = self._driver.attempt(do, payload)
            if do == "create" and ok and is_async(self._driver.environment):
                self._awaited = Awaited(self._driver, self._directory, self._answer)
            if do == "close":
                remove(self._directory)
            self._answer(call, ok, body)
            if self._awaited is not None:
                return


class Awaited:
    """An `AsyncEnvironment`: each call is a task of the worker's loop."""

    def __init__(self, driver: Driver, directory: Path, answer: Answer) -> None:
        self._driver, self._directory, self._answer = driver, directory, answer
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, call: int, do: str, payload: Mapping[str, Any]) -> None:
        """Begin a task."""
        task = asyncio.get_running_loop().create_task(self._run(call, do, payload))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: int, do: str, payload: Mapping[str, Any]) -> None:
        try:
            returned = self._driver.start(do, payload)
            if inspect.isawaitable(returned):
                returned = await returned
            if has_pixels(returned):
                body = await asyncio.to_thread(self._driver.read, do, returned)
            else:
                body = self._driver.read(do, returned)
            if do == "close":
                await asyncio.to_thread(remove, self._directory)
        except _RAISED as error:
            self._answer(call, False, self._driver.refuse(error))
        else:
            self._answer(call, True, body)


def is_async(target: Any) -> bool:
    """Whether an environment, its class or its factory is awaited."""
    factory = inspect.iscoroutinefunction(target)
    return factory or inspect.iscoroutinefunction(getattr(target, "reset", None))


def refuse(error: BaseException) -> bytes:
    """The packed reply to a call that raised; the log gets the whole traceback."""
    traceback.print_exception(error)
    kind = type(error).__name__
    if isinstance(error, InvalidObservation):
        kind = "invalid"
    elif isinstance(error, ConfigurationError):
        kind = "configuration"
    elif isinstance(error, EnvironmentFailure):
        kind = error.kind
    elif isinstance(error, StopIteration):
        error = RuntimeError("the environment raised StopIteration")
    lines = str(error).strip().splitlines()
    message = lines[0][:_MAX_MESSAGE].encode(errors="replace").decode() if lines else kind
    return wire.pack({"kind": kind, "message": message})


def _enter(directory: Path) -> None:
    """Give this thread a working directory of its own (Linux can), so that siblings differ."""
    directory.mkdir(parents=True, exist_ok=True)
    if ctypes.CDLL(None).unshare(_CLONE_FS) == 0:
        os.chdir(directory)


def _evaluate(environment: Any) -> Any:
    """The method, looked up through gymnasium's wrappers; None when missing."""
    method = getattr(environment, "evaluate", None)
    return method or getattr(getattr(environment, "unwrapped", None), "evaluate", None)


def _native(environment: Any) -> dict[str, Any] | None:
    """Descriptions of its spaces for gymnasium code at the far end, None where it has none."""
    if not hasattr(environment, "action_space") and not hasattr(environment, "native"):
        return None
    # imported here: an awaited environment may do without gymnasium
    from mintact_platform.environments.protocol.spacecodec import native_spaces

    return native_spaces(environment)


def _check(returned: Any) -> dict[str, Any] | None:
    if returned is None:
        return None
    try:
        score = float(returned.score)
        return {
            "success": bool(returned.success),
            "score": score,
            "details": plain(returned.details),
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidObservation(f"evaluate must return a StateCheck: {error}") from None
