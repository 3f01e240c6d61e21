"""Discovery of a hundred plugins against the bare minimum: their entry points, imported.

    python benchmarks/plugins/run.py [--quick] [--plugins N]

Both are measured in one run and in turns, in fresh interpreters: ratios count, a busy machine
slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sites
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- plugins -->", "<!-- end of plugins -->"
HEAVY = ("torch", "transformers", "numpy", "PIL", "fastapi", "httpx", "playwright", "pydantic")
CONTESTANTS = {"mintact": sites.OURS, "entry points, imported": sites.FLOOR}


class Table(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Goal(NamedTuple):
    what: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        return self.measured <= self.limit


def main() -> None:
    options = _options()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        few = sites.write(Path(directory) / "few", 0)
        many = sites.write(Path(directory) / "many", options.plugins)
        results = _measure(few, many, options, lambda text: console.print(text, style="dim"))
        listed = sites.listing(many)
    heavy = sorted(set(HEAVY) & set(listed["modules"]))
    goals = _goals(results, heavy)
    tables = [_discovery(results, options.plugins), _listing(listed, heavy), _reached(goals)]
    for table in tables:
        _show(console, table)
    console.print(_machine())
    values = {"machine": _machine(), "ms": results, "listing": listed}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    if options.publish:
        _publish(tables)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="three rounds")
    parser.add_argument("--plugins", type=int, default=100, metavar="N")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 7, quick 3")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "plugins.json")
    parser.add_argument("--publish", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


def _measure(
    few: Path, many: Path, options: argparse.Namespace, say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Milliseconds by contestant: without the dummies, with them, and for each of them."""
    rounds = options.rounds or (3 if options.quick else 7)
    taken: dict[str, list[tuple[sites.Seconds, sites.Seconds]]] = {}
    for number in range(-1, rounds):
        say("warming up" if number < 0 else f"round {number + 1} of {rounds}")
        for name, code in CONTESTANTS.items():
            pair = sites.seconds(few, code), sites.seconds(many, code)
            if number >= 0:
                taken.setdefault(name, []).append(pair)
    return {name: _medians(pairs, options.plugins) for name, pairs in taken.items()}


def _medians(pairs: list[tuple[sites.Seconds, sites.Seconds]], count: int) -> dict[str, float]:
    return {
        "without": 1000 * statistics.median(few.wall for few, _ in pairs),
        "with": 1000 * statistics.median(many.wall for _, many in pairs),
        "each": 1000 * statistics.median((many.wall - few.wall) / count for few, many in pairs),
        "cpu": 1000 * statistics.median((many.cpu - few.cpu) / count for few, many in pairs),
    }


def _goals(results: dict[str, dict[str, float]], heavy: list[str]) -> list[Goal]:
    ours, floor = (results[name] for name in CONTESTANTS)
    return [
        # a busy machine stretches the wall's clock by as much as it likes
        Goal("ms of a core a plugin, discovery", ours["cpu"], 1.0),
        Goal("ms a plugin over the bare minimum", ours["each"] / floor["each"], 3.0),
        Goal("heavy packages loaded by `mintact plugins`", len(heavy), 0),
    ]


def _discovery(results: dict[str, dict[str, float]], count: int) -> Table:
    columns = ("contestant", "installed, ms", f"{count} more, ms", "ms each", "CPU ms each", "×")
    floor = results[list(CONTESTANTS)[-1]]["each"]
    rows = []
    for name, seen in results.items():
        whole = (f"{seen['without']:.1f}", f"{seen['with']:.1f}")
        each = (f"{seen['each']:.3f}", f"{seen['cpu']:.3f}", f"{seen['each'] / floor:.2f}")
        rows.append((name, *whole, *each))
    return Table("Discovery in a fresh interpreter, files warm", columns, rows)


def _listing(listed: dict[str, object], heavy: list[str]) -> Table:
    modules = listed["modules"]
    assert isinstance(modules, list)
    tops = {name.partition(".")[0] for name in modules}
    row = (
        f"{listed['seconds']:.2f}",
        str(listed["lines"]),
        str(len(modules)),
        str(len(tops)),
        ", ".join(heavy) or "none",
    )
    columns = ("seconds", "lines", "modules", "packages", f"of {', '.join(HEAVY)}")
    return Table("`mintact plugins`", columns, [row])


def _reached(goals: list[Goal]) -> Table:
    rows = [
        (goal.what, f"{goal.measured:.2f}", f"≤ {goal.limit:g}", "✓" if goal.met else "✗")
        for goal in goals
    ]
    return Table("Goals", ("goal", "measured", "limit", "met"), rows)


def _machine() -> str:
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = platform.python_version()
    return f"{cores} cores, {platform.system()}, Python {python}, load {load:.1f} at the end"


def _show(console: Console, table: Table) -> None:
    rich = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        rich.add_row(*row)
    console.print(rich)


def _publish(tables: list[Table]) -> None:
    text = "\n\n".join([f"Measured on {_machine()}.", *map(_markdown, tables)])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def _markdown(table: Table) -> str:
    rows = [table.columns, ("---", *("---:" for _ in table.columns[1:])), *table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([f"### {table.title}", "", *lines])


if __name__ == "__main__":
    main()
