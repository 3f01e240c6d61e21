"""Measures contestants in turns, so that a busy machine slows all alike."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import contestants
import psutil
from mintact_env_web.browser.processes import browser_processes

MIN_STEPS = 3
"""Of every page, however slow."""
STARTS = {b"\xff\xd8": "jpeg", b"\x89P": "png"}


@dataclass(frozen=True)
class Figures:
    """What a number of pages at once came to; times in milliseconds."""

    steps: int
    rate: float
    p50: float
    p99: float
    own_cpu: float
    """Of this process, a step."""


@dataclass
class Results:
    """Figures by contestant and number of pages, and memory in MB by contestant.

    Attributes:
        steps: the median of the rounds.
        ratios: of rates against the plain loop, the median of the ratios within each round.
        memory: of the whole browser by number of pages.
    """

    steps: dict[str, dict[int, Figures]] = field(default_factory=dict)
    ratios: dict[str, dict[int, float]] = field(default_factory=dict)
    memory: dict[str, dict[int, float]] = field(default_factory=dict)


@dataclass
class Pages:
    """The open pages of a contestant."""

    contestant: contestants.Contestant
    steps: list[contestants.Step] = field(default_factory=list)
    counts: list[contestants.Count] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    async def grow(self, many: int) -> None:
        while len(self.steps) < many:
            step, count = await self.contestant.open()
            self.steps.append(step)
            self.counts.append(count)
            self.done.append(0)

    async def verify(self) -> None:
        """Every click has arrived.

        Raises:
            AssertionError: one has not.
        """
        for count, done in zip(self.counts, self.done, strict=True):
            assert await count() == done


async def contest(
    names: Sequence[str],
    many: Sequence[int],
    *,
    seconds: float,
    rounds: int,
    say: Callable[[str], None],
) -> Results:
    """Measure contestants over numbers of pages, the smaller ones first.

    Args:
        names: of the contestants.
        many: numbers of pages at once.
        seconds: of each measurement.
        rounds: of all measurements; odd ones in the reverse order of contestants.
        say: told about progress.
    """
    made = contestants.contestants()
    field_of = {name: Pages(made[name]()) for name in names}
    seen: dict[str, dict[int, list[Figures]]] = {name: {} for name in names}
    results = Results(memory={name: {} for name in names})
    try:
        for number in sorted(many):
            for pages in field_of.values():
                await pages.grow(number)
            for name, pages in field_of.items():
                mark = pages.contestant.mark
                results.memory[name][number] = await asyncio.to_thread(_memory, mark)
            for turn in range(rounds):
                say(f"{number} at once, round {turn + 1} of {rounds}")
                for name in names if turn % 2 == 0 else reversed(names):
                    figures = await _measure(field_of[name], number, seconds)
                    seen[name].setdefault(number, []).append(figures)
        for pages in field_of.values():
            await pages.verify()
    finally:
        for pages in field_of.values():
            await pages.contestant.close()
    _sum_up(results, seen)
    return results


async def _measure(pages: Pages, many: int, seconds: float) -> Figures:
    taken: list[float] = []

    async def one(index: int) -> None:
        step, did = pages.steps[index], 0
        before = time.perf_counter()
        while before < end or did < MIN_STEPS:
            picture = await step(pages.done[index])
            assert picture[:2] in STARTS
            pages.done[index] += 1
            did += 1
            now = time.perf_counter()
            taken.append(now - before)
            before = now

    cpu, begin = time.process_time(), time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*(one(index) for index in range(many)))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    ordered = sorted(taken)
    return Figures(
        steps=len(taken),
        rate=len(taken) / wall,
        p50=1e3 * statistics.median(taken),
        p99=1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        own_cpu=1e3 * cpu / len(taken),
    )


def _memory(mark: str) -> float:
    """Of the browser's processes, shared pages divided among their users, in MB."""
    total = 0
    for pid in browser_processes(mark):
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(pid).memory_full_info().pss
    return total / 1e6


def _sum_up(results: Results, seen: Mapping[str, Mapping[int, Sequence[Figures]]]) -> None:
    base = seen.get(contestants.PLAIN, {})
    for name, cells in seen.items():
        results.steps[name] = {number: _median(figures) for number, figures in cells.items()}
        results.ratios[name] = {
            number: statistics.median(
                mine.rate / theirs.rate for mine, theirs in zip(figures, base[number], strict=True)
            )
            for number, figures in cells.items()
            if number in base
        }


def _median(repeated: Sequence[Figures]) -> Figures:
    """Each figure's median by itself."""
    values = [asdict(figures) for figures in repeated]
    middle = {name: statistics.median(value[name] for value in values) for name in values[0]}
    return Figures(**{**middle, "steps": int(middle["steps"])})
