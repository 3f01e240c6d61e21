"""Clicks and screenshots through `WebEnvironment` against loops that only use Playwright.

    python benchmarks/web/run.py [--quick] [--skip NAME]…

All contestants are measured in one run and in turns: ratios count, a busy machine slows all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import contestants
import driving
import tables
from mintact_env_web.browser.launch import find_chromium
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"


def main() -> None:
    options = _options()
    console = Console(width=110)
    names = [name for name in contestants.contestants() if name not in options.skip]
    if unknown := {*options.skip} - {*contestants.contestants()}:
        raise SystemExit(f"no contestant {sorted(unknown)}; there are {', '.join(names)}")
    if find_chromium() is None:
        console.print("web: left out, no Chromium (apt-get install chromium-headless-shell)")
        return
    results = asyncio.run(
        driving.contest(
            names,
            options.pages or ((1, 4) if options.quick else (1, 4, 16)),
            seconds=options.seconds or (0.5 if options.quick else 3.0),
            rounds=options.rounds or (1 if options.quick else 5),
            say=lambda text: console.print(text, style="dim"),
        )
    )
    made, where = tables.tables(results), tables.machine()
    for table in made:
        _show(console, table)
    console.print(where)
    _write(options.json, results, where)
    if options.publish:
        PAGE.write_text(tables.publish(tables.markdown(made, where), PAGE.read_text()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME")
    parser.add_argument("--pages", type=int, nargs="+", metavar="N", help="at once; at most 16")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5, quick 1")
    parser.add_argument("--seconds", type=float, metavar="S", help="of a measurement; default 3")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "web.json")
    parser.add_argument("--publish", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


def _show(console: Console, table: tables.Table) -> None:
    rich = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        rich.add_row(*row)
    console.print(rich)


def _write(path: Path, results: driving.Results, where: str) -> None:
    """All figures as JSON, for comparison with another run."""
    reached = [{**goal._asdict(), "met": goal.met} for goal in tables.goals(results)]
    path.parent.mkdir(parents=True, exist_ok=True)
    everything = {"machine": where, **asdict(results), "goals": reached}
    path.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
