"""One environment inside a worker: built, driven, read and closed on a thread of its own."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from mintact_platform.environments import wire
from mintact_platform.environments.encoding import InvalidObservation, from_reset, from_step, plain
from mintact_platform.environments.wire import ImageFormat
from mintact_platform.errors import ConfigurationError

T = TypeVar("T")
_CLONE_FS = 0x200


class Instance:
    """Drives a `gymnasium.Env` on its own thread, or an `AsyncEnvironment` on the loop.

    A hung synchronous environment so blocks nobody but itself. Replies are packed bytes, which
    the server passes through unopened.

    Args:
        target: class or factory of the environment, parameters by keyword.
        directory: made for this instance; its thread's working directory.
        image_format: encoding of screenshots.
    """

    def __init__(
        self, target: Callable[..., Any], directory: Path, image_format: ImageFormat
    ) -> None:
        self._target = target
        self._directory = directory
        self._format = image_format
        self._thread = ThreadPoolExecutor(1, initializer=_enter, initargs=(directory,))
        self._environment: Any = None

    async def create(self, params: Mapping[str, Any]) -> bytes:
        """Build the environment.

        Raises:
            ConfigurationError: a parameter it does not take, or one it needs.
        """
        factory = self._target
        try:
            inspect.signature(factory).bind(**params)
        except TypeError as error:
            raise ConfigurationError(str(error), where="environment's parameters") from None
        if inspect.isclass(factory) and _is_async(factory):
            self._environment = factory(**params)
        elif inspect.iscoroutinefunction(factory):
            self._environment = await factory(**params)
        else:
            self._environment = await self._on_thread(lambda: factory(**params))
        return wire.pack({})

    async def reset(self, task: Mapping[str, Any], seed: int) -> bytes:
        """Start an episode; the packed observation."""
        return await self._drive("reset", from_reset, seed=seed, options={"task": dict(task)})

    async def step(self, action: Mapping[str, Any]) -> bytes:
        """Carry out one call; the packed observation."""
        return await self._drive("step", from_step, dict(action))

    async def evaluate(self) -> bytes:
        """The packed state check, `{"check": null}` where the environment has none."""
        return await self._drive("evaluate", None)

    async def close(self) -> bytes:
        """Close the environment and delete its directory."""
        try:
            if self._environment is not None:
                await self._drive("close", None)
        finally:
            await self._on_thread(lambda: shutil.rmtree(self._directory, ignore_errors=True))
            self._thread.shutdown(wait=False)
        return wire.pack({})

    async def _drive(self, name: str, read: Any, *args: Any, **kwargs: Any) -> bytes:
        method = _method(self._environment, name)
        if inspect.iscoroutinefunction(method):
            returned = await method(*args, **kwargs)
            return await self._on_thread(lambda: self._encode(name, read, returned))
        return await self._on_thread(
            lambda: self._encode(name, read, method and method(*args, **kwargs))
        )

    def _encode(self, name: str, read: Any, returned: Any) -> bytes:
        try:
            if read is not None:
                return wire.pack(read(returned, self._format).pack())
            return wire.pack({"check": _check(returned) if name == "evaluate" else None})
        except wire.WireError as error:
            raise InvalidObservation(str(error)) from error

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _settled, work)


def _settled(work: Callable[[], T]) -> T:
    """Do it; a StopIteration would never arrive, because a future cannot carry one."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("the environment raised StopIteration") from error


def _enter(directory: Path) -> None:
    """Give this thread a working directory of its own (Linux can), so that siblings differ."""
    directory.mkdir(parents=True, exist_ok=True)
    if ctypes.CDLL(None).unshare(_CLONE_FS) == 0:
        os.chdir(directory)


def _is_async(kind: type) -> bool:
    return inspect.iscoroutinefunction(getattr(kind, "reset", None))


def _method(environment: Any, name: str) -> Any:
    """The method, looked up through gymnasium's wrappers; None for a missing `evaluate`."""
    method = getattr(environment, name, None)
    if method is None and name == "evaluate":
        method = getattr(getattr(environment, "unwrapped", None), name, None)
    return method


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
