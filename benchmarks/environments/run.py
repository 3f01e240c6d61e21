"""Leases against OpenEnv, against a bare batching echo, and against the step in process.

    python benchmarks/environments/run.py [--quick] [--only NAME]… [--skip NAME]…

All contestants are measured in one run and in turns: ratios count, a busy machine slows all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import contestants
import leasing
import life
import openenv_install
import report
import steps
from driving import Cell
from goals import goals
from rich.console import Console

PAGE = openenv_install.ROOT / "docs" / "benchmarks.md"


def main() -> None:
    options = _options()
    console = Console(width=110)
    known = [*contestants.contestants(), *life.MEASURES]
    wanted = [name for name in options.only or known if name not in options.skip]
    if unknown := {*wanted, *options.skip} - {*known}:
        raise SystemExit(f"no measure {sorted(unknown)}; there are {', '.join(known)}")
    leasing.importable()
    measured, values = asyncio.run(_measure(wanted, options, console))
    reached = goals(measured, values)
    made = report.tables(measured, values, reached)
    report.show(console, made)
    console.print(report.machine())
    _write(options.json, measured, values, [{**g._asdict(), "met": g.met} for g in reached])
    if options.publish:
        report.publish(PAGE, report.markdown(made, report.machine()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this alone")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME")
    parser.add_argument("--repetitions", type=int, metavar="N", help="default 3, quick 1")
    parser.add_argument("--sessions", type=int, nargs="+", metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S", help="of a cell; default 2")
    parser.add_argument("--json", type=Path, default=openenv_install.CACHE / "environments.json")
    parser.add_argument("--publish", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


async def _measure(
    wanted: Sequence[str], options: argparse.Namespace, console: Console
) -> tuple[steps.Results, life.Values]:
    repetitions = options.repetitions or (1 if options.quick else 3)
    sessions = options.sessions or ((1, 30) if options.quick else (1, 30, 100, 300))
    seconds = options.seconds or (0.25 if options.quick else 2.0)
    cells = [Cell(count, image, seconds) for count in sessions for image in (False, True)]
    entries = {name: make for name, make in contestants.contestants().items() if name in wanted}
    values: life.Values = {}

    def say(text: str) -> None:
        console.print(text, style="dim")

    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        logs = Path(directory)
        measured = await steps.contest(
            entries, cells if entries else [], repetitions=repetitions, logs=logs, say=say
        )
        for name, measure in life.MEASURES.items():
            if name in wanted:
                say(name)
                values |= await measure(logs, 3 * repetitions, options.quick)
    return measured, values


def _write(path: Path, measured: steps.Results, values: life.Values, reached: object) -> None:
    """All figures as JSON, for comparison with another run."""
    flat = {name: {c: asdict(f) for c, f in cells.items()} for name, cells in measured.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    results = {
        "machine": report.machine(),
        "steps": flat,
        "life": {name: value._asdict() for name, value in values.items()},
        "goals": reached,
    }
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
