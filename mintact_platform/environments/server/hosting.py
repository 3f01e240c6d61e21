"""The server's side of one worker: its calls, its replies, its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgpack

from mintact_platform import processes
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.server.quarantine import Key

Answered: TypeAlias = Callable[[Any, bool | None, bytes], None]
"""Told what the caller passed, whether it went well (None: the worker died), the packed body."""


class WorkerDied(Exception):
    """The worker's process ended while it was needed."""


class CallFailed(Exception):
    """The environment raised; `kind` and message as the worker described them."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @classmethod
    def read(cls, body: bytes) -> CallFailed:
        """From the worker's packed words, which may be garbage."""
        try:
            values = wire.unpack(body)
            return cls(str(values["kind"]), str(values["message"]))
        except (wire.WireError, KeyError, TypeError):
            return cls("invalid", "the worker's error is unreadable")


class Kind(NamedTuple):
    """What makes two instances able to share a worker.

    Attributes:
        environment: registered name or `module:attribute`.
        python: interpreter of the worker.
    """

    environment: str
    python: str


@dataclass(eq=False)
class WorkerProcess(asyncio.Protocol):
    """A worker, its open calls and its instances.

    Attributes:
        name: unique in the server; part of the mark and of the names of its instances.
        kind: environment and interpreter.
        directory: everything its instances write.
        log: its output.
        on_death: told once.
        child: the process.
        seats: instances it may host.
        description: the environment's `mintact` metadata, once started.
        instances: names of the hosted instances.
        dead: it ended or is being killed.
        starting: settles when it is ready.
        limits: what it may use.
        failed: it did not end because it was not needed any more.
        counted: that it died under its instances was counted as a failure.
        cause: kind and message of why it died.
    """

    name: str
    kind: Kind
    directory: Path
    log: Path
    on_death: Callable[[WorkerProcess], None]
    seats: int = 1
    description: dict[str, Any] = field(default_factory=dict)
    child: processes.Child | None = None
    instances: set[str] = field(default_factory=set)
    dead: bool = False
    _calls: dict[int, tuple[Answered, Any]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _unpacker: msgpack.Unpacker = field(default_factory=wire.unpacker)
    _packer: wire.Packer = field(default_factory=wire.Packer)
    _out: list[bytes] = field(default_factory=list)
    _transport: asyncio.Transport | None = None
    _killing: asyncio.Task[None] | None = None
    starting: asyncio.Task[None] | None = None
    limits: dict[str, float] = field(default_factory=dict)
    failed: bool = False
    counted: bool = False
    cause: tuple[str, str] = ("crash", "the worker died")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the worker."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Settle the calls that these replies answer; a worker that sends anything else is dead."""
        try:
            replies = wire.messages(self._unpacker, data, [int, bool, bytes])
        except wire.WireError:
            self.connection_lost(None)
            return
        for call, ok, body in replies:
            waiting = self._calls.pop(call, None)
            if waiting is not None:
                waiting[0](waiting[1], ok, body)

    def connection_lost(self, error: Exception | None) -> None:
        """The worker died: every open call fails."""
        if not self.dead:
            self.dead = True
            self.failed = self.failed or self._killing is None
            self.on_death(self)
        calls, self._calls = self._calls, {}
        for done, what in calls.values():
            done(what, None, b"")

    def started(self, starting: asyncio.Task[None]) -> None:
        """A worker that did not start takes no further instances."""
        if starting.cancelled() or starting.exception() is not None:
            self.dead = True

    def send(
        self, instance: str, do: str, payload: Mapping[str, Any], done: Answered, what: Any
    ) -> int:
        """Let an instance do something; the calls of one turn of the loop leave in few writes.

        Args:
            instance: its name.
            do: name of the method.
            payload: its arguments.
            done: told `what`, whether it went well, and the reply's packed bytes.
            what: the caller's, passed back.

        Returns:
            The call's number, for `forget`.

        Raises:
            WorkerDied: before it was asked.
            WireError: the payload holds what no message can carry.
        """
        if self.dead or self._transport is None:
            raise WorkerDied
        number = next(self._numbers)
        self._out.append(self._packer.pack((number, instance, do, payload)))
        if len(self._out) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        elif len(self._out) >= wire.WRITE_EVERY:
            self._flush()
        self._calls[number] = (done, what)
        return number

    def forget(self, number: int) -> None:
        """Want no reply to a call any more."""
        self._calls.pop(number, None)

    async def call(self, instance: str, do: str, payload: Mapping[str, Any]) -> bytes:
        """Let an instance do something; the reply's packed bytes.

        Raises:
            WorkerDied: before it answered.
            CallFailed: the environment raised or returned garbage.
        """
        future: asyncio.Future[tuple[bool | None, bytes]]
        future = asyncio.get_running_loop().create_future()
        number = self.send(instance, do, payload, _settle, future)
        try:
            ok, body = await future
        finally:
            self.forget(number)
        if ok is None:
            raise WorkerDied
        if not ok:
            raise CallFailed.read(body)
        return body

    def log_tail(self) -> str:
        """The last lines of its output."""
        return processes.tail(self.log, 40)

    def fail(self, kind: str, message: str) -> None:
        """It has to die because of what it did; kind and message become its open calls' errors."""
        self.failed = True
        self.cause = (kind, message)

    async def kill(self, end: Callable[[WorkerProcess], Coroutine[Any, Any, None]]) -> None:
        """Close its socket and have its processes, directory and log ended; safe to call twice."""
        if self._killing is None:
            self._killing = asyncio.get_running_loop().create_task(self._kill(end))
        self.connection_lost(None)
        await asyncio.shield(self._killing)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    async def _kill(self, end: Callable[[WorkerProcess], Coroutine[Any, Any, None]]) -> None:
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.wait([self.starting])
        if self._transport is not None:
            self._transport.abort()
        await end(self)


@dataclass(eq=False)
class Placed:
    """An instance and the worker that hosts it.

    Attributes:
        name: unique in the server.
        worker: its host.
        key: what it is counted under when it fails, None before it was asked to boot.
        native: descriptions of its gymnasium spaces, None where it has none.
    """

    name: str
    worker: WorkerProcess
    key: Key | None = None
    native: dict[str, Any] | None = None

    async def call(self, do: str, payload: Mapping[str, Any]) -> bytes:
        """Let the instance do something; see `WorkerProcess.call`."""
        return await self.worker.call(self.name, do, payload)


def _settle(
    future: asyncio.Future[tuple[bool | None, bytes]], ok: bool | None, body: bytes
) -> None:
    if not future.done():
        future.set_result((ok, body))
