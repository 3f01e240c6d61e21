"""Trees of processes: who belongs to whom, and how to end all of them.

A process belongs to a tree by its mark, a variable that descendants inherit, or by its ancestry,
which holds for those that dropped the mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MARK = "MINTACT_MARK"
_DEADLINE = 5.0
_STARTING = 0.25
_PAUSE = 0.002


def marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark or one below it, this one excepted."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        theirs = _mark_of(int(name))
        if theirs is not None and _is_below(theirs, mark):
            found.append(int(name))
    return found


def kill_marked(mark: str) -> None:
    """Kill every process that carries the mark or one below it (`mark/…`), until none is left.

    Descendants that dropped the mark are killed too, those under a mark of their own are not.
    """
    end = time.monotonic() + _DEADLINE
    while (pids := _frozen(mark)) and time.monotonic() < end:
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        # who waits for a disk, or for a processor that others have, dies a little later
        time.sleep(_PAUSE)


def below(pid: int, *, foreign: Callable[[int], bool] | None = None) -> list[int]:
    """Descendants of a process, parents first; none of those that `foreign` names."""
    found, position = [pid], 0
    while position < len(found):
        for child in _children(found[position]):
            if child not in found and not (foreign and foreign(child)):
                found.append(child)
        position += 1
    return found[1:]


def kill_below(pid: int) -> None:
    """Kill all descendants of this process, which adopts its orphans, and reap them."""
    end = time.monotonic() + _DEADLINE
    while time.monotonic() < end and (pids := below(pid)):
        for descendant in pids:
            _signal(descendant, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def end_with_tree(process: subprocess.Popen[bytes]) -> bool:
    """Kill all descendants of a process that adopts its orphans; whether it then ended by itself.

    If so, nothing of its tree is left. A process that was itself killed may have left orphans.
    """
    now = time.monotonic()
    end, idle_until = now + _DEADLINE, now + _STARTING
    while process.poll() is None and time.monotonic() < end:
        pids = below(process.pid)
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        if not pids and time.monotonic() > idle_until:
            break  # it has not begun to adopt anything
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    return process.returncode is not None and process.returncode >= 0


def _frozen(mark: str) -> list[int]:
    """The processes of a mark with their descendants, stopped, so that none can fork away."""
    stopped: dict[int, None] = {}

    def foreign(pid: int) -> bool:
        theirs = _mark_of(pid)
        return pid == os.getpid() or (theirs is not None and not _is_below(theirs, mark))

    while True:
        roots = [pid for pid in marked(mark) if not _is_zombie(pid)]
        pids = {p: None for root in roots for p in (root, *below(root, foreign=foreign))}
        new = [pid for pid in pids if pid not in stopped and not _is_zombie(pid)]
        if not new:
            return [pid for pid in stopped if not _is_zombie(pid)]
        for pid in new:
            _signal(pid, signal.SIGSTOP)
            stopped[pid] = None


def _children(pid: int) -> Iterable[int]:
    """Child processes of all threads of a process."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                yield from map(int, file.read().split())
    except FileNotFoundError:
        # a kernel without that file, or a thread that ended meanwhile
        yield from _children_by_scan(pid)
    except OSError:
        return


def _children_by_scan(pid: int) -> Iterable[int]:
    for name in os.listdir("/proc"):
        if name.isdigit() and _stat(int(name))[1:2] == [str(pid)]:
            yield int(name)


def _mark_of(pid: int) -> str | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    start = f"{MARK}=".encode()
    value = next((v for v in variables if v.startswith(start)), None)
    return None if value is None else os.fsdecode(value[len(start) :])


def _is_below(mark: str, other: str) -> bool:
    return mark == other or mark.startswith(f"{other}/")


def _is_zombie(pid: int) -> bool:
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """State, parent and what else the kernel says of a process; [] when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
