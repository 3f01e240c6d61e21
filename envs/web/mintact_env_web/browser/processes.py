"""The processes of a browser and of its driver, found without asking either."""

from __future__ import annotations

import os
import signal
from pathlib import Path

MARK = "MINTACT_WEB_BROWSER"
"""Environment variable that names the browser a process was started as."""


def browser_processes(mark: str) -> list[int]:
    """Ids of the processes of that browser, helpers and pages included.

    A helper's environment is overwritten by its command line: it is found by its parent.
    """
    wanted = f"{MARK}={mark}".encode()
    parents = _parents()
    found = {pid for pid in parents if wanted in _read(pid, "environ").split(b"\0")}
    return sorted(found | descendants(found, parents))


def children(of: int) -> set[int]:
    """Ids of the child processes of a process."""
    return {pid for pid, parent in _parents().items() if parent == of}


def descendants(of: set[int], parents: dict[int, int] | None = None) -> set[int]:
    """Ids of everything below these processes."""
    parents = _parents() if parents is None else parents
    found: set[int] = set()
    level = set(of)
    while level:
        level = {pid for pid, parent in parents.items() if parent in level} - found
        found |= level
    return found


def kill(pids: list[int] | set[int]) -> None:
    """Kill processes; those that are gone are fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def command_line(pid: int) -> bytes:
    """The command line of a process, empty when it is gone."""
    return _read(pid, "cmdline")


def _parents() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state = _read(int(entry.name), "stat").rpartition(b")")[2].split()
            if len(state) > 1:
                found[int(entry.name)] = int(state[1])
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
