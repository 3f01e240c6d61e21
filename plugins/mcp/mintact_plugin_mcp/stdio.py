"""A server that is a child process: bounded messages, its words in our log, ended with its kin.

The official package has such a transport too, which keeps a message without an end in memory, and
waits longer than an episode should for a child that does not go.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from mintact_platform import processes

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_UNHEARD = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_GRACE_S = 1.0
"""Seconds a child has after its input ended, and again after SIGTERM."""
_EXIT_S = 1.0
"""Seconds from the end of a child's output to its own."""
_LOOK_S = 0.01
_CHUNK = 1 << 16
_LOGGED = 200
"""Characters of a line that is no message."""


class Child:
    """The child process of one connection.

    Args:
        command: program and arguments.
        environ: its whole environment.
        directory: it works in.
        max_bytes: of one message.

    Attributes:
        broken: why the connection cannot be used any more, "" while it can.
        too_large: because a message was over the cap.
    """

    def __init__(
        self, command: Sequence[str], environ: dict[str, str], directory: Path, max_bytes: int
    ) -> None:
        self._command, self._directory = command, directory
        # below this process's own mark, so that the child's kin is found wherever it went
        self._mark = f"{environ.get(processes.MARK, 'mcp')}/{secrets.token_hex(8)}"
        self._environ = {**environ, processes.MARK: self._mark}
        self._max_bytes = max_bytes
        self.broken = ""
        self.too_large = False
        self._silent = asyncio.Event()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Streams]:
        """Start it; what it writes on standard error goes to this process's own.

        Raises:
            OSError: it cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environ,
            cwd=self._directory,
            limit=self._max_bytes,
            start_new_session=True,
        )
        to_us, ours = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        theirs, to_them = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, process, to_us)
            group.start_soon(self._write, process, to_them)
            try:
                yield ours, theirs
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process, self._mark)
                    with anyio.move_on_after(_GRACE_S):
                        await self._silent.wait()
                for stream in (ours, theirs, to_us, to_them):
                    stream.close()
                group.cancel_scope.cancel()

    async def _read(self, process: asyncio.subprocess.Process, incoming: Incoming) -> None:
        assert process.stdout is not None
        try:
            with (
                incoming,
                contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError),
            ):
                await self._deliver(process, process.stdout, incoming)
            # a full pipe would keep it from ending, and us from closing the pipe
            while await process.stdout.read(_CHUNK):
                pass
        finally:
            self._silent.set()

    async def _deliver(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        incoming: Incoming,
    ) -> None:
        """Hand on every message; why it ended is known before the session hears that it did."""
        while True:
            try:
                line = await output.readline()
            except ValueError:
                self.too_large = True
                self.broken = f"wrote a message over {self._max_bytes} bytes"
                _signal(process, signal.SIGKILL)
                return
            if not line:
                self.broken = await _how_it_ended(process)
                return
            message = _message(line)
            if message is not None:
                await incoming.send(message)

    async def _write(self, process: asyncio.subprocess.Process, outgoing: Outgoing) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            async for message in outgoing:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()


def _message(line: bytes) -> SessionMessage | None:
    """A message; what else a program prints there is for people, and goes to the log."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        said = line.decode(errors="replace").strip()
        if said:
            print(f"no message of a server: {said[:_LOGGED]}", file=sys.stderr, flush=True)
        return None


async def _how_it_ended(process: asyncio.subprocess.Process) -> str:
    await _gone(process, _EXIT_S)
    code = process.returncode
    if code is None:
        return "closed its output"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End it: first its input, then it by a signal, then whatever carries its mark."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _gone(process, _GRACE_S):
        _signal(process, signal.SIGTERM)
        await _gone(process, _GRACE_S)
    _signal(process, signal.SIGKILL)
    await asyncio.to_thread(processes.kill_marked, mark)
    await _gone(process, _GRACE_S)


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ended in time; `wait` would wait for heirs of its output too."""
    ends = asyncio.get_running_loop().time() + seconds
    while process.returncode is None and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(_LOOK_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
