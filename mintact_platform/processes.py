"""Child processes that cannot outlive their parent, and say when they are ready.

The parent hands a child its specification on standard input, a *lifeline* whose end of file means
"exit now", and a *ready* pipe on which the child writes one line of JSON. The lifeline closes by
itself however the parent dies; the kernel's parent-death signal covers a child that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mintact_platform.errors import MintactError
from mintact_platform.trees import MARK as MARK
from mintact_platform.trees import end_with_tree
from mintact_platform.trees import kill_marked as kill_marked
from mintact_platform.trees import marked as marked

LIFELINE = "MINTACT_LIFELINE_FD"
READY = "MINTACT_READY_FD"
_PR_SET_PDEATHSIG = 1


@dataclass
class Child:
    """A running child process.

    Attributes:
        process: the process itself.
        ready: what it wrote when it became ready.
        log: the file that holds its output.
        mark: value of `MINTACT_MARK` in it and in all its descendants.
        keeps_tree: it adopts its orphaned descendants, and ends once none is left.
    """

    process: subprocess.Popen[bytes]
    ready: dict[str, Any]
    log: Path
    mark: str
    _lifeline: int
    keeps_tree: bool = False

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        return tail(self.log, lines)

    async def stop(self, *, grace: float = 5.0) -> None:
        """Close the lifeline, wait, then kill the process and all its descendants."""
        self.detach()
        try:
            async with asyncio.timeout(grace):
                while self.alive():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            await asyncio.to_thread(self.kill)

    def detach(self) -> None:
        """Close the lifeline: the child is told to exit."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def kill(self) -> None:
        """Kill it with all its descendants, and reap it."""
        self.detach()
        if not (self.keeps_tree and end_with_tree(self.process)):
            kill_marked(self.mark)
        if self.alive():
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            # open still where the specification was never handed over
            with contextlib.suppress(OSError):
                self.process.stdin.close()


async def spawn(
    command: Sequence[str],
    spec: Mapping[str, Any],
    *,
    log: Path,
    mark: str,
    deadline: float,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    keeps_tree: bool = False,
) -> Child:
    """Start `command`, hand it `spec` as JSON on standard input, wait for its ready line.

    Args:
        command: the command line, e.g. `[sys.executable, "-m", "package.module"]`.
        spec: JSON values.
        log: file for its output; parent directories are made, content is appended.
        mark: unique text, carried in the environment by the child and all its descendants.
        deadline: seconds until it must be ready.
        environ: added to this process's environment.
        pass_fds: file descriptors it inherits.
        keeps_tree: it adopts its orphaned descendants, and ends once none is left.

    Raises:
        MintactError: when it dies or is not ready in time; the text ends with its last log lines.
    """
    name = " ".join(command[-2:])
    process, lifeline, ready_read = _launch(command, log, mark, environ or {}, pass_fds)
    child = Child(process, {}, log, mark, lifeline, keeps_tree)
    try:
        async with asyncio.timeout(deadline):
            await asyncio.to_thread(_feed, process, json.dumps(spec).encode())
            line = await _read_line(ready_read)
        if not line:
            raise MintactError("ended before it was ready", where=name)
        child.ready = json.loads(line)
    except BaseException as error:
        await finish(asyncio.to_thread(child.kill))
        if isinstance(error, (TimeoutError, MintactError)):
            reason = "was not ready in time" if isinstance(error, TimeoutError) else error.what
            tail = child.log_tail(3).strip() or "no output"
            raise MintactError(f"{reason}: {tail}", where=name, next=f"see {log}") from error
        raise
    finally:
        os.close(ready_read)
    return child


def _launch(
    command: Sequence[str],
    log: Path,
    mark: str,
    environ: Mapping[str, str],
    pass_fds: Sequence[int],
) -> tuple[subprocess.Popen[bytes], int, int]:
    """The process, our end of its lifeline, our end of its ready pipe; no descriptor leaks."""
    log.parent.mkdir(parents=True, exist_ok=True)
    lifeline_read, lifeline_write = os.pipe()
    ready_read, ready_write = os.pipe()
    pipes = {LIFELINE: str(lifeline_read), READY: str(ready_write), MARK: mark}
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **environ, **pipes},
                pass_fds=(lifeline_read, ready_write, *pass_fds),
                start_new_session=True,
            )
    except BaseException:
        os.close(lifeline_write)
        os.close(ready_read)
        raise
    finally:
        os.close(lifeline_read)
        os.close(ready_write)
    return process, lifeline_write, ready_read


def adopt(*, on_orphan: Callable[[], None] | None = None) -> dict[str, Any]:
    """Called first in a child's main: read the specification, and exit when the parent is gone.

    Args:
        on_orphan: runs before the exit, e.g. to kill grandchildren.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    descriptor = int(os.environ[LIFELINE])

    def watch() -> None:
        try:
            while os.read(descriptor, 1):
                pass
        except OSError:
            pass
        if on_orphan is not None:
            on_orphan()
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="lifeline").start()
    spec: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    return spec


def ready(message: Mapping[str, Any]) -> None:
    """Tell the parent, once, that this child can be used."""
    descriptor = int(os.environ.pop(READY))
    os.write(descriptor, json.dumps({"pid": os.getpid(), **message}).encode() + b"\n")
    os.close(descriptor)


async def finish(work: Coroutine[Any, Any, Any]) -> None:
    """Run to the end even when cancelled meanwhile, then let the cancellation go on.

    The work must have a deadline of its own.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains that it was not
        raise cancelled
    task.result()


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a text file, "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16384))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _feed(process: subprocess.Popen[bytes], payload: bytes) -> None:
    stdin: IO[bytes] | None = process.stdin
    if stdin is None:
        return
    try:
        stdin.write(payload)
    except BrokenPipeError:
        pass
    finally:
        # what could not be written is still buffered, and closing tries once more
        with contextlib.suppress(BrokenPipeError):
            stdin.close()


async def _read_line(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    buffer = b""
    while not buffer.endswith(b"\n"):
        future = loop.create_future()
        loop.add_reader(descriptor, _settle, future)
        try:
            await future
        finally:
            loop.remove_reader(descriptor)
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return b""
        buffer += chunk
    return buffer


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
