"""Results as tables: on the terminal, and as the markdown of `docs/benchmarks.md`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from driving import Figures
from goals import Goal, Value
from rich.console import Console
from rich.table import Table as RichTable

BEGIN, END = "<!-- environments -->", "<!-- end of environments -->"


class Table(NamedTuple):
    """A title, the heads of the columns, rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables(
    steps: Mapping[str, Mapping[str, Figures]], life: Mapping[str, Value], goals: Sequence[Goal]
) -> list[Table]:
    """All that is to be shown."""
    made = [_steps(steps, "text"), _steps(steps, "image"), _life(life), _goals(goals)]
    return [table for table in made if table.rows]


def machine() -> str:
    """Where the figures come from, in one line."""
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    python = platform.python_version()
    return f"{cores} cores, {platform.system()}, Python {python}, load {load:.1f} at the end"


def show(console: Console, made: Sequence[Table]) -> None:
    """Print the tables."""
    for table in made:
        rich = RichTable(title=table.title, title_justify="left")
        for number, column in enumerate(table.columns):
            rich.add_column(column, justify="left" if number == 0 else "right")
        for row in table.rows:
            rich.add_row(*row)
        console.print(rich)


def markdown(made: Sequence[Table], where: str) -> str:
    """The tables as markdown."""
    return "\n\n".join([f"Measured on {where}.", *map(_markdown, made)])


def publish(page: Path, text: str) -> None:
    """Replace the part of a page between the marks of this benchmark."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def _steps(steps: Mapping[str, Mapping[str, Figures]], payload: str) -> Table:
    columns = ("contestant", "sessions", "steps/s", "× OpenEnv", "p50 ms", "p99 ms")
    table = Table(
        f"Steps, {'text' if payload == 'text' else '90 KB image'}",
        (*columns, "client CPU ms", "server CPU ms"),
        [],
    )
    for cell in _cells(steps, payload):
        base = steps.get("openenv", {}).get(cell)
        for name, measured in steps.items():
            if cell in measured:
                seen = measured[cell]
                ratio = "" if base is None else f"{seen.rate / base.rate:.2f}"
                times = (f"{seen.p50:.3f}", f"{seen.p99:.2f}")
                cpu = (f"{seen.client_cpu:.3f}", f"{seen.server_cpu:.3f}")
                row = (name, cell.split()[0], f"{seen.rate:,.0f}", ratio, *times, *cpu)
                table.rows.append(row)
    return table


def _cells(steps: Mapping[str, Mapping[str, Figures]], payload: str) -> Iterator[str]:
    """Names of the cells of a payload, in order, each once."""
    every = dict.fromkeys(cell for measured in steps.values() for cell in measured)
    yield from sorted((c for c in every if payload in c), key=lambda cell: int(cell.split()[0]))


def _life(life: Mapping[str, Value]) -> Table:
    rows: list[tuple[str, ...]] = [
        (name, f"{_number(value.number)} {value.unit}") for name, value in life.items()
    ]
    return Table("Leases", ("figure", "measured"), rows)


def _goals(goals: Sequence[Goal]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            goal.what,
            f"{_number(goal.measured)} {goal.unit}",
            f"{'≥' if goal.least else '≤'} {_number(goal.limit)} {goal.unit}",
            "✓" if goal.met else "✗",
        )
        for goal in goals
    ]
    return Table("Goals", ("goal", "measured", "limit", "met"), rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}", "", _line(table.columns)]
    lines.append(_line(["---", *("---:" for _ in table.columns[1:])]))
    return "\n".join([*lines, *map(_line, table.rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
