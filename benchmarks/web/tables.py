"""Results and goals as tables, on the terminal and in markdown. Pure."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import NamedTuple

from contestants import JPEG, OURS, PNG
from driving import Results

BEGIN, END = "<!-- web -->", "<!-- end of web -->"


class Goal(NamedTuple):
    """A figure and what it has to be at least."""

    what: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.measured >= self.limit


class Table(NamedTuple):
    """A title, the heads of the columns, rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def goals(results: Results) -> list[Goal]:
    """Every goal whose figures were measured."""
    reached = [
        Goal(f"steps/s over a loop that speaks CDP itself, {number} at once", ratio, 0.9)
        for number, ratio in results.ratios.get(OURS, {}).items()
    ]
    ours, jpeg, png = (results.steps.get(name, {}) for name in (OURS, JPEG, PNG))
    reached += [
        Goal(f"steps/s over a plain Playwright loop, {n} at once", ours[n].rate / jpeg[n].rate, 0.9)
        for n in ours
        if n in jpeg
    ]
    reached += [
        Goal(
            f"steps/s over those with Playwright's PNG, {n} at once", ours[n].rate / png[n].rate, 4
        )
        for n in ours
        if n in png
    ]
    return reached


def tables(results: Results) -> list[Table]:
    """All that is to be shown."""
    made = [_steps(results), _memory(results), _goals(results)]
    return [table for table in made if table.rows]


def machine() -> str:
    """Where the figures come from, in one line."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = platform.python_version()
    return f"{cores} cores, {platform.system()}, Python {python}, load {load:.1f} at the end"


def markdown(made: list[Table], where: str) -> str:
    """The tables as markdown."""
    return "\n\n".join([f"Measured on {where}.", *map(_markdown, made)])


def publish(text: str, page: str) -> str:
    """The page with its part between the marks of this benchmark replaced."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


def _steps(results: Results) -> Table:
    columns = ("contestant", "pages", "steps/s", "× plain", "p50 ms", "p99 ms", "own CPU ms")
    table = Table("A click and a screenshot", columns, [])
    for number in _numbers(results):
        for name, cells in results.steps.items():
            if number in cells:
                seen = cells[number]
                ratio = results.ratios[name].get(number)
                times = (f"{seen.p50:.1f}", f"{seen.p99:.0f}", f"{seen.own_cpu:.2f}")
                share = "" if ratio is None else f"{ratio:.2f}"
                table.rows.append((name, str(number), f"{seen.rate:.1f}", share, *times))
    return table


def _memory(results: Results) -> Table:
    table = Table("Memory of the browser", ("contestant", "one page", "each further page"), [])
    for name, by_number in results.memory.items():
        least, most = min(by_number), max(by_number)
        if most > least and by_number[most]:
            more = (by_number[most] - by_number[least]) / (most - least)
            table.rows.append((name, f"{by_number[least]:.0f} MB", f"{more:.1f} MB"))
    return table


def _goals(results: Results) -> Table:
    rows: list[tuple[str, ...]] = [
        (goal.what, f"{goal.measured:.2f} ×", f"≥ {goal.limit:g} ×", "✓" if goal.met else "✗")
        for goal in goals(results)
    ]
    return Table("Goals", ("goal", "measured", "limit", "met"), rows)


def _numbers(results: Results) -> Iterator[int]:
    yield from sorted({number for cells in results.steps.values() for number in cells})


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}", "", _line(table.columns)]
    lines.append(_line(("---", *("---:" for _ in table.columns[1:]))))
    return "\n".join([*lines, *map(_line, table.rows)])


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
