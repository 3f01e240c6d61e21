"""The client's half of a measurement, the same code for every contestant, in a process of its own.

A client opens sessions and then serves *cells*: one JSON line in, one JSON line out. It needs no
more than the standard library and psutil, so that it also runs in another interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

import psutil

Step = Callable[[int, bool], Awaitable[None]]
"""One step of one session: its number, and whether a screenshot is wanted; checks the answer."""
Open = Callable[[], Awaitable[Step]]

MIN_STEPS = 3
"""Of every session, however slow."""
_OPENING = 16
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """What to measure.

    Attributes:
        sessions: that step at the same time, each as fast as it can.
        image: whether every reply carries a screenshot of 90 KB.
        seconds: how long.
    """

    sessions: int
    image: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out; times in milliseconds, the CPU's per step."""

    steps: int
    rate: float
    p50: float
    p99: float
    client_cpu: float
    server_cpu: float


async def drive(steps: Sequence[Step], cell: Cell, server: psutil.Process | None) -> Figures:
    """Step all sessions until the time is over.

    Args:
        steps: one a session.
        cell: what to measure.
        server: root of the processes whose CPU time is the contestant's, None for no other process.
    """
    taken: list[float] = []
    numbers = [0] * len(steps)

    async def one(index: int) -> None:
        step, done = steps[index], 0
        before = time.perf_counter()
        while before < end or done < MIN_STEPS:
            await step(done, cell.image)
            now = time.perf_counter()
            taken.append(now - before)
            before, done = now, done + 1
        numbers[index] = done

    spent, cpu = tree_cpu(server), time.process_time()
    begin = time.perf_counter()
    end = begin + cell.seconds
    await asyncio.gather(*(one(index) for index in range(len(steps))))
    wall = time.perf_counter() - begin
    cpu, spent = time.process_time() - cpu, tree_cpu(server) - spent
    count = sum(numbers)
    return Figures(
        steps=count,
        rate=count / wall,
        p50=1e3 * statistics.median(taken),
        p99=1e3 * quantile(taken, 0.99),
        client_cpu=1e3 * cpu / count,
        server_cpu=1e3 * spent / count,
    )


async def serve(open_session: Open, server: int | None) -> None:
    """Answer cells from standard input until it ends; sessions stay open from cell to cell.

    Args:
        open_session: opens one more session.
        server: process id of the server, None for none.
    """
    root = None if server is None else psutil.Process(server)
    steps: list[Step] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        cell = Cell(**json.loads(line))
        while len(steps) < cell.sessions:
            missing = min(_OPENING, cell.sessions - len(steps))
            steps += await asyncio.gather(*(open_session() for _ in range(missing)))
        chosen = steps[: cell.sessions]
        # once round, so that nobody is measured while it imports or connects
        await asyncio.gather(*(step(0, cell.image) for step in chosen))
        figures = await drive(chosen, cell, root)
        print(json.dumps(asdict(figures)), flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def tree(root: psutil.Process) -> list[psutil.Process]:
    """A process and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [root, *root.children(recursive=True)]
    return []


def tree_cpu(root: psutil.Process | None) -> float:
    """Seconds of CPU that a process and its living descendants have used."""
    total = 0.0
    for process in tree(root) if root is not None else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def end_with_parent() -> None:
    """Let the kernel kill this process when the benchmark goes, however it goes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
