"""The process that hosts instances of one environment: `python -m …environments.worker`.

It speaks frames of msgpack on a socket it inherits, so that nothing an environment prints can
break them. It imports no more than the standard library, pluggy, numpy, gymnasium and msgpack, so
that it also runs in another interpreter than the server's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mintact_platform import processes
from mintact_platform.environments import wire
from mintact_platform.environments.encoding import InvalidObservation, plain
from mintact_platform.environments.instance import Instance
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, MintactError
from mintact_platform.registry.names import Registry


class Worker(asyncio.Protocol):
    """Answers `[call, instance, do, payload]` with `[call, ok, body]`, each call a task.

    Args:
        target: class or factory of the environment.
        directory: holds one directory for each instance.
        ended: set when the server closed the socket.
    """

    def __init__(self, target: Any, directory: Path, ended: asyncio.Event) -> None:
        self._target = target
        self._directory = directory
        self._ended = ended
        self._instances: dict[str, Instance] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader = wire.FrameReader()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Start a task for every complete frame."""
        for frame in self._reader.feed(data):
            task = asyncio.get_running_loop().create_task(self._answer(*wire.unpack(frame)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def connection_lost(self, error: Exception | None) -> None:
        """The server is gone."""
        self._ended.set()

    async def _answer(self, call: int, name: str, do: str, payload: dict[str, Any]) -> None:
        try:
            reply = [call, True, await self._call(name, do, payload)]
        except Exception as error:
            traceback.print_exc()
            reply = [call, False, wire.pack(_describe_error(error))]
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.frame(wire.pack(reply)))

    async def _call(self, name: str, do: str, payload: dict[str, Any]) -> bytes:
        if do == "create":
            directory = self._directory / name
            instance = Instance(self._target, directory, payload["image_format"])
            self._instances[name] = instance
            return await instance.create(payload["params"])
        instance = self._instances[name] if do != "close" else self._instances.pop(name)
        body: bytes = await getattr(instance, do)(**payload)
        return body


def main() -> None:
    """Read the specification, import the environment, say ready, serve until the socket closes."""
    spec = processes.adopt()
    directory = Path(spec["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    channel = socket.socket(fileno=spec["fd"])
    try:
        target = Registry.discover().get("environments", spec["environment"])
        check_requirements(spec["environment"], describe(target))
    except MintactError as error:
        processes.ready({"error": str(error)})
        sys.exit(1)
    os.chdir(directory)
    asyncio.run(_serve(channel, target, directory))
    # a hung environment's thread must not keep the process
    os._exit(0)


def describe(target: Any) -> dict[str, Any]:
    """The `mintact` part of an environment's metadata, as JSON values."""
    metadata = getattr(target, "metadata", None)
    ours = metadata.get("mintact", {}) if isinstance(metadata, Mapping) else {}
    description: dict[str, Any] = plain(ours)
    return description


def check_requirements(name: str, description: Mapping[str, Any]) -> None:
    """Find the binaries of `requires`, `{"binary or|another": "package that brings it"}`.

    Raises:
        ConfigurationError: naming the missing binary and its package.
    """
    for binaries, package in dict(description.get("requires", {})).items():
        if not any(shutil.which(binary) for binary in binaries.split("|")):
            raise ConfigurationError(
                f"needs the program {' or '.join(map(repr, binaries.split('|')))}",
                where=f"environment {name!r}",
                next=f"install the package {package!r}",
            )


async def _serve(channel: socket.socket, target: Any, directory: Path) -> None:
    ended = asyncio.Event()
    channel.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(
        lambda: Worker(target, directory, ended), sock=channel
    )
    processes.ready({"description": describe(target)})
    await ended.wait()


def _describe_error(error: Exception) -> dict[str, Any]:
    kind = type(error).__name__
    if isinstance(error, InvalidObservation):
        kind = "invalid"
    elif isinstance(error, ConfigurationError):
        kind = "configuration"
    elif isinstance(error, EnvironmentFailure):
        kind = error.kind
    message = str(error).strip().splitlines()
    return {"kind": kind, "message": message[0] if message else kind}


if __name__ == "__main__":
    main()
