"""The process that hosts instances of one environment: `python -m …environments.worker`.

It speaks a stream of msgpack on a socket it inherits, so that nothing an environment prints can
break them. It imports no more than the standard library, pluggy, numpy, gymnasium and msgpack, so
that it also runs in another interpreter than the server's.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mintact_platform import processes
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.worker.encoding import plain
from mintact_platform.environments.worker.instance import Instance, host
from mintact_platform.environments.worker.shim import apply
from mintact_platform.errors import ConfigurationError, MintactError
from mintact_platform.registry.guard import import_in_place
from mintact_platform.registry.source import Source

_LIGHT_SEATS = 32
"""Instances a worker hosts when `isolation` is "thread"."""
_WRITE_AFTER = 0.0005
"""Seconds after which inline instances that still run hold no ready reply back."""


class Worker(asyncio.Protocol):
    """Answers `[call, instance, do, payload]` with `[call, ok, body]`, in any order.

    Replies that are ready together leave in one write; those of threads wake the loop once.

    Args:
        target: class or factory of the environment.
        directory: holds one directory for each instance.
        ended: set when the server closed the socket.
    """

    def __init__(self, target: Any, directory: Path, ended: asyncio.Event) -> None:
        self._target = target
        self._inline = bool(describe(target).get("inline", False))
        self._directory = directory
        self._ended = ended
        self._instances: dict[str, Instance] = {}
        self._unpacker = wire.unpacker()
        self._transport: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._packer = wire.Packer(None)
        self._ready: deque[tuple[int, bool, bytes]] = deque()
        self._awake = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Begin every complete call."""
        try:
            calls = wire.messages(self._unpacker, data, [int, str, str, dict])
        except wire.WireError:
            self._ended.set()
            return
        self._awake = True
        written = time.perf_counter()
        for call, name, do, payload in calls:
            self._begin(call, name, do, payload)
            if self._is_worth_writing(written):
                self._write()
                self._awake, written = True, time.perf_counter()
        self._write()

    def connection_lost(self, error: Exception | None) -> None:
        """The server is gone."""
        self._ended.set()

    def answer(self, call: int, ok: bool, body: bytes) -> None:
        """Send a reply, from any thread."""
        self._ready.append((call, ok, body))
        if not self._awake:
            self._awake = True
            self._loop.call_soon_threadsafe(self._write)

    def _begin(self, call: int, name: str, do: str, payload: dict[str, Any]) -> None:
        if do == "create":
            self._instances[name] = host(
                self._target,
                self._directory / name,
                payload["image_format"],
                self.answer,
                inline=self._inline,
            )
        instance = self._instances[name] if do != "close" else self._instances.pop(name)
        instance.submit(call, do, payload)

    def _is_worth_writing(self, written: float) -> bool:
        """Whether ready replies should not wait for inline instances that are yet to run."""
        if len(self._ready) >= wire.WRITE_EVERY:
            return True
        return self._inline and time.perf_counter() - written > _WRITE_AFTER

    def _write(self) -> None:
        # first, so that a reply which comes after the last look wakes the loop again
        self._awake = False
        replies = []
        while self._ready:
            replies.append(self._packer.pack(self._ready.popleft()))
        if replies and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(replies))


def main() -> None:
    """Read the specification, import the environment, say ready, serve until the socket closes."""
    spec = processes.adopt()
    import_in_place()
    directory = Path(spec["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    channel = socket.socket(fileno=spec["fd"])
    try:
        target = _load(spec["environment"], spec.get("source"), spec.get("requires", ()))
        check_requirements(spec["environment"], describe(target))
    except MintactError as error:
        processes.ready({"error": str(error)})
        sys.exit(1)
    # known to the server beforehand only where it imports the environment itself
    apply(describe(target).get("limits", {}))
    os.chdir(directory)
    asyncio.run(_serve(channel, target, directory))
    # a hung environment's thread must not keep the process
    os._exit(0)


def _load(name: str, source: Sequence[Any] | None, requires: Sequence[str]) -> Any:
    """Import the environment from where the server found it, else find it among the plugins."""
    if source is not None:
        return Source(*source).load()
    from mintact_platform.registry.names import Registry

    registry = Registry.discover()
    registry.require_of("environments", name, requires, where="environment worker")
    return registry.get("environments", name)


def describe(target: Any) -> dict[str, Any]:
    """The `mintact` part of an environment's metadata, as JSON values."""
    metadata = getattr(target, "metadata", None)
    ours = metadata.get("mintact", {}) if isinstance(metadata, Mapping) else {}
    description: dict[str, Any] = plain(ours)
    return description


def seats(description: Mapping[str, Any]) -> int:
    """Instances a worker may host, from an environment's `mintact` metadata."""
    light = _LIGHT_SEATS if description.get("isolation") == "thread" else 1
    return max(1, int(description.get("instances_per_worker", light)))


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
    # what the imports made lives as long as the process: no collection need look at it
    gc.collect()
    gc.freeze()
    processes.ready({"description": describe(target)})
    await ended.wait()


if __name__ == "__main__":
    main()
