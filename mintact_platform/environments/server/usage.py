"""What workers use, looked at about once a second, and which of them use too much.

An address-space limit would break browsers, which reserve far more than they touch; so memory is
measured. Everything here blocks and runs on a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mintact_platform import trees

LOG_CAP = 16 << 20
"""Bytes of a worker's log; its middle is cut out beyond that."""
_LOG_HEAD, _LOG_TAIL = 1 << 20, 4 << 20
_MB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watched(NamedTuple):
    """A worker to look at.

    Attributes:
        name: of the worker.
        pid: of the process the server started; what it hosts is below that.
        around: processes below it that only keep the others together.
        directory: that has to be measured, None where a file system bounds it.
        log: its output.
        limits: what it may use.
    """

    name: str
    pid: int
    around: int
    directory: Path | None
    log: Path
    limits: Mapping[str, float]


class Breach(NamedTuple):
    """A worker that uses more than it may.

    Attributes:
        name: of the worker.
        kind: `memory`, `disk` or `processes`.
        message: how much of how much.
    """

    name: str
    kind: str
    message: str


def look(workers: Iterable[Watched]) -> list[Breach]:
    """Cut logs that grew too long; the workers over one of their limits."""
    found = []
    for worker in workers:
        trim(worker.log)
        breach = _breach(worker)
        if breach is not None:
            found.append(breach)
    return found


def trim(log: Path, cap: int = LOG_CAP) -> None:
    """Keep the beginning and the end of a log over its cap; its writer appends meanwhile."""
    head, tail = min(_LOG_HEAD, cap // 4), min(_LOG_TAIL, cap // 2)
    try:
        with log.open("r+b", buffering=0) as file:
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            if size <= cap:
                return
            cut = b"\n... %d bytes cut ...\n" % (size - head - tail)
            written, read = head + os.pwrite(descriptor, cut, head), size - tail
            # the end moves forward with all that is appended meanwhile, unless that never ends
            while written < cap and (data := os.pread(descriptor, _MB, read)):
                read += len(data)
                written += os.pwrite(descriptor, data, written)
            os.ftruncate(descriptor, written)
    except OSError:
        return


def memory(pids: Iterable[int]) -> int:
    """Bytes that processes hold in memory; pages they share count for each."""
    return sum(_resident(pid) for pid in pids)


def proportional_memory(pids: Iterable[int]) -> int:
    """Bytes that processes hold in memory; a shared page counts once, split among its users."""
    return sum(_proportional(pid) for pid in pids)


def directory_size(directory: Path) -> int:
    """Bytes of disk under a directory."""
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


def _breach(worker: Watched) -> Breach | None:
    limits = worker.limits
    if "memory_mb" in limits or "processes" in limits:
        pids = trees.below(worker.pid)
        count = len(pids) - worker.around
        if count > limits.get("processes", count):
            allowed = int(limits["processes"])
            return Breach(worker.name, "processes", f"{count} processes, {allowed} are allowed")
        cap = limits.get("memory_mb", float("inf")) * _MB
        # the exact figure walks page tables: only asked for when the cheap, larger one is over
        if memory(pids) > cap and (used := proportional_memory(pids)) > cap:
            return Breach(worker.name, "memory", _too_much("memory", used, cap))
    if "disk_mb" in limits and worker.directory is not None:
        used, cap = directory_size(worker.directory), limits["disk_mb"] * _MB
        if used > cap:
            return Breach(worker.name, "disk", _too_much("disk", used, cap))
    return None


def _too_much(what: str, used: float, cap: float) -> str:
    return f"{used / _MB:.0f} MB of {what} in use, {cap / _MB:g} MB are allowed"


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return _resident(pid)
