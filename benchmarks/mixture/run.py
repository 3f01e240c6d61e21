"""Four domains, each half as fast as the one before: what batches hold with quotas and without.

    python benchmarks/mixture/run.py [--quick] [--picture FILE]

Two real runs of `mintact train` with environments, engine and trainer, one after the other. The
judge tosses a coin, so that every domain teaches as much as another and only speed differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mintact_platform.dashboard import charts
from mintact_platform.dashboard.history import History

Batches = Mapping[str, list[dict[str, int]]]
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOMAINS = ("mobile", "desktop", "web", "tools")
FASTEST = 1.5
"""Seconds of a step of the fastest domain; each next one takes twice as long."""
QUOTA = 2
WITHOUT = {"fill": "fifo", "flow_control": "none", "eviction": "oldest"}


def main() -> None:
    options = _options()
    console = Console(width=100)
    steps = 4 if options.quick else 15
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as name:
        directory = Path(name)
        mintact(directory, "torch", "new-model", "model", "--align-steps", "0")
        for run, schedule in {"with": {}, "without": WITHOUT}.items():
            console.print(f"{steps} steps {run} quotas", style="dim")
            write_run_file(directory / f"{run}.toml", run, steps, schedule)
            mintact(directory, "train", f"{run}.toml")
        batches = {run: read(directory / "runs" / run) for run in ("with", "without")}
    draw(batches, options.picture)
    show(console, batches)
    console.print(f"picture: {options.picture}")
    exact = all(set(batch.values()) == {QUOTA} for batch in batches["with"])
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"exact": exact, "batches": batches}, indent=1) + "\n")
    told = "met" if exact else "MISSED"
    console.print(f"{told}: with quotas, every batch holds {QUOTA} groups of each domain")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="four steps a run")
    parser.add_argument("--picture", type=Path, default=ROOT / ".bench" / "mixture.svg")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "mixture.json")
    return parser.parse_args()


def mintact(directory: Path, *words: str) -> None:
    """Run a command in a directory; what it says is told if it fails."""
    command = [sys.executable, "-m", "mintact_platform.cli.main", *words, "--quiet"]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"mintact {' '.join(words)} failed:\n{done.stdout[-4000:]}")


def write_run_file(path: Path, name: str, steps: int, schedule: Mapping[str, Any]) -> None:
    """A run of four domains; `schedule` says what differs."""
    domains = [
        f"""
[domains.{domain}]
environment = "micro/{domain}"
params = {{ step_seconds = {seconds(index)} }}
tasks = "micro/{domain}:train"
action_space = {{ name = "chance:{domain.title()}", params = {{ prompt = "short" }} }}
judge = "chance:coin"
instances = 8
quota = {QUOTA}
max_turns = 2
"""
        for index, domain in enumerate(DOMAINS)
    ]
    chosen = "\n".join(f'{key} = "{value}"' for key, value in schedule.items())
    head = f"""name = "{name}"
model = {{ path = "model" }}
trainer = {{ steps = {steps}, lr = 1e-5, micro_batch_tokens = 16384 }}
objective = {{ length_cap = 128 }}
sync = {{ every = 1 }}

[rollout]
active = 32
group_size = 4
max_new_tokens = 16
max_context = 900
tools_in = "message"

[schedule]
fallback_after = 600
{chosen}
"""
    path.write_text(head + "".join(domains))


def read(run: Path) -> list[dict[str, int]]:
    """Groups of each domain in each batch."""
    with History(run) as history:
        return [{d: step.realised.get(d, 0) for d in DOMAINS} for step in history.steps]


def draw(batches: Batches, path: Path) -> None:
    """Both runs' batches under one another."""
    captions = {
        "with": f"with quotas: {QUOTA} groups of each domain in every batch",
        "without": "without: whoever comes first",
    }
    parts = []
    for run, steps in batches.items():
        bars = [
            charts.Bar(str(number), list(step.values())) for number, step in enumerate(steps, 1)
        ]
        label = "groups in each batch by domain"
        size = QUOTA * len(DOMAINS)
        chart = charts.bar_chart(bars, DOMAINS, label=label, x_label="step", reference=size)
        parts.append((captions[run], chart))
    legend = [(f"{domain} {seconds(i):g} s", i) for i, domain in enumerate(DOMAINS)]
    title = "What batches are made of, and how long an action takes"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(charts.stacked(parts, title, legend), encoding="utf-8")


def seconds(index: int) -> float:
    """Of a step of a domain."""
    return FASTEST * 2.0**index


def show(console: Console, batches: Batches) -> None:
    """Each domain's share of what was trained."""
    table = Table(title="share of the trained groups", title_justify="left")
    table.add_column("")
    for domain in DOMAINS:
        table.add_column(domain, justify="right")
    for run, steps in batches.items():
        counts = [sum(step[d] for step in steps) for d in DOMAINS]
        table.add_row(f"{run} quotas", *(f"{n / sum(counts):.2f}" for n in counts))
    console.print(table)


if __name__ == "__main__":
    main()
