"""Time and peak memory of a loss, and of the log-probability step over a large vocabulary.

    python benchmarks/objectives/run.py [--quick]

Each contestant runs in its own process, in turns; times are CPU seconds of the best step, so that
a busy machine counts less. Memory is the rise of the resident high-water mark in the first step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from contestants import HEADS, LOSSES, TOKENS, VOCABULARY
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("contestants.py")
MEBIBYTE = 1024 * 1024


class Result(NamedTuple):
    """The best CPU seconds of a step, and the rise of its process' memory in bytes."""

    seconds: float
    peak: int


def main() -> None:
    options = _options()
    console = Console(width=100)
    losses = _contest([*LOSSES], options)
    heads = _contest([*HEADS], options)
    size = f"[{options.rows} × {options.tokens}]"
    _show(console, f"loss + backward, {size} float32, one thread", losses, "plain eager")
    title = f"log-probabilities + backward, {TOKENS} tokens × {VOCABULARY}, H = {options.hidden}"
    _show(console, title, heads, "unchunked")
    goals = {
        "peak memory of chunked ≤ 1/8": heads["unchunked"].peak / heads["chunked"].peak >= 8,
        "chunked no slower": heads["chunked"].seconds <= heads["unchunked"].seconds,
    }
    for goal, met in goals.items():
        console.print(f"{'met' if met else 'MISSED'}: {goal}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {name: result._asdict() for name, result in {**losses, **heads}.items()}
    options.json.write_text(json.dumps({"figures": figures, "goals": goals}, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one round, two steps")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=256, help="width of the output layer")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "objectives.json")
    return parser.parse_args()


def _contest(names: list[str], options: argparse.Namespace) -> dict[str, Result]:
    results: dict[str, Result] = {}
    for _ in range(1 if options.quick else 3):
        for name in names:
            measured = _measure(name, options)
            known = results.get(name, measured)
            best = min(known.seconds, measured.seconds)
            results[name] = Result(best, min(known.peak, measured.peak))
    return results


def _measure(name: str, options: argparse.Namespace) -> Result:
    sizes = ("rows", "tokens", "hidden")
    arguments = [f"--{size}={getattr(options, size)}" for size in sizes]
    command = [sys.executable, str(WORKER), name, *arguments]
    command += ["--steps=2" if options.quick else "--steps=4"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    measured = json.loads(output.splitlines()[-1])
    return Result(min(cpu for cpu, _ in measured["seconds"]), measured["peak"])


def _show(console: Console, title: str, results: dict[str, Result], base: str) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("", "CPU s a step", "time ×", "peak MiB", "memory ×"):
        table.add_column(column, justify="right" if column else "left")
    for name, result in results.items():
        table.add_row(
            name,
            f"{result.seconds:.3f}",
            f"{result.seconds / results[base].seconds:.2f}",
            f"{result.peak / MEBIBYTE:.0f}",
            f"{result.peak / results[base].peak:.3f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
