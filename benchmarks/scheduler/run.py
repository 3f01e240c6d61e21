"""What the scheduler costs: processor time, a waiting loop, memory of what is queued.

    python benchmarks/scheduler/run.py [--quick] [--rollouts N]

Rollouts only sleep, in real time; groups, verdicts, fates and steps go through the real producer,
scheduler and run.db. Processor time counts, the clock suffers from a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import load as loads
from rich.console import Console
from rich.table import Table as RichTable

from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.queue import GroupQueue, QueuedGroup
from mintact_platform.scheduler.simulation.assumptions import parse
from mintact_platform.scheduler.simulation.simulate import simulate
from mintact_platform.training.trainer import RowRef

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- scheduler -->", "<!-- end of scheduler -->"


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
    seconds = options.seconds or (8.0 if options.quick else 30.0)
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        console.print(f"{options.rollouts} rollouts for {seconds:.0f} s", style="dim")
        seen = asyncio.run(
            loads.measure(
                Path(directory) / "run", active=options.rollouts, step_seconds=5.0, seconds=seconds
            )
        )
        idle = asyncio.run(sleepers(options.rollouts, 5.0, seconds / 2))
    console.print("the same with transports", style="dim")
    whole = transports(64 if options.quick else options.rollouts, seconds)
    event = event_cost(8 if options.quick else 30)
    trajectory = queued_bytes()
    goals = _goals(seen, idle, trajectory, whole)
    tables = [_load(seen, idle, event, trajectory), _transports(whole), _reached(goals)]
    for table in tables:
        _show(console, table)
    console.print(_machine())
    values = {
        "machine": _machine(),
        "rollouts": seen.rollouts,
        "cpu_share": seen.cpu / seen.seconds,
        "sleepers_cpu_share": idle,
        "us_an_event": 1e6 * event,
        "bytes_a_trajectory": trajectory,
        "transports": whole,
        "goals": [{**goal._asdict(), "met": goal.met} for goal in goals],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    if options.publish:
        _publish(tables)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="seconds instead of a minute")
    parser.add_argument("--rollouts", type=int, default=1000, metavar="N", help="at once (1000)")
    parser.add_argument("--seconds", type=float, metavar="S", help="default 30, quick 8")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "scheduler.json")
    parser.add_argument("--publish", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


async def sleepers(count: int, step_seconds: float, seconds: float) -> float:
    """Share of a core that as many tasks take which only sleep, without any scheduler."""

    async def sleeper(rollouter: loads.SleepingRollouter) -> None:
        while True:
            await asyncio.sleep(step_seconds * rollouter.draw.uniform(0.5, 1.5))

    rollouter = loads.SleepingRollouter(count, step_seconds)
    tasks = [asyncio.create_task(sleeper(rollouter)) for _ in range(count)]
    await asyncio.sleep(1.0)
    cpu, start = loads.cpu_seconds(), time.monotonic()
    while time.monotonic() - start < seconds:
        await asyncio.sleep(loads.TICK)
    share = (loads.cpu_seconds() - cpu) / (time.monotonic() - start)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return share


def transports(rollouts: int, seconds: float) -> dict[str, Any]:
    """The whole process, in a process: see `transports.py`."""
    script = Path(__file__).with_name("transports.py")
    command = [sys.executable, str(script), f"--rollouts={rollouts}", f"--seconds={seconds}"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    return seen


def event_cost(steps: int) -> float:
    """Seconds of processor time an event of a simulated run takes, scheduler and all."""
    domain = {"quota": 16, "seconds": 60.0, "producers": 30}
    assumptions = parse(
        {
            "steps": steps,
            "trainer": {"seconds": 60.0},
            "domains": dict.fromkeys(loads.DOMAINS, domain),
        }
    )
    registry = Registry.discover()
    start = time.process_time()
    result = simulate(assumptions, registry)
    return (time.process_time() - start) / result.events


def queued_bytes(groups: int = 100, members: int = 8) -> float:
    """Host memory of a queued trajectory of thirty turns with everything a row may carry."""

    def group(number: int) -> QueuedGroup:
        rows = tuple(
            RowRef(
                id=f"{number}-{member}" + "x" * 24,
                path=f"runs/a/trajectories/{member:02x}/{number}-{member}.safetensors",
                group=str(number),
                domain="web",
                reward=float(member),
                reward_parts={"success": 1.0 * number, "format": 0.5 * number},
                turn_rewards=tuple(float(number + turn) / 7 for turn in range(loads.TURNS)),
            )
            for member in range(members)
        )
        return QueuedGroup(str(number), "web", 0, rows, 0.0)

    queue = GroupQueue(groups)
    tracemalloc.start()
    for number in range(groups):
        queue.put(group(number), {"web": groups})
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / (groups * members)


def _goals(seen: loads.Load, idle: float, trajectory: float, whole: dict[str, Any]) -> list[Goal]:
    share = seen.cpu / seen.seconds
    return [
        Goal(f"% of a core, bookkeeping at {seen.rollouts:.0f} rollouts", 100 * (share - idle), 5),
        Goal(
            f"% of a core, the process with transports at {whole['rollouts']:.0f} rollouts",
            100 * whole["cpu_share"],
            100,
        ),
        Goal("ms a database write held the loop at most, processor time", max(seen.writes_cpu), 5),
        Goal("KB a queued trajectory of 30 turns", trajectory / 1000, 50),
    ]


def _load(seen: loads.Load, idle: float, event: float, trajectory: float) -> Table:
    writes = sorted(seen.writes)
    rows = [
        ("rollouts at once", f"{seen.rollouts:.0f}"),
        ("environment steps a second", f"{seen.steps / seen.seconds:.0f}"),
        ("groups ended a minute", f"{60 * seen.groups / seen.seconds:.0f}"),
        ("batches a minute", f"{60 * seen.batches / seen.seconds:.1f}"),
        ("share of a core", f"{100 * seen.cpu / seen.seconds:.1f} %"),
        ("of it the sleeping alone", f"{100 * idle:.1f} %"),
        ("loop late, p50 / p99 / most", f"{seen.late(0.5):.1f} / {seen.late(0.99):.1f} / "
         f"{seen.late(1):.1f} ms"),
        ("a write held it, p50 / p99 / most", f"{writes[len(writes) // 2]:.3f} / "
         f"{writes[int(0.99 * len(writes))]:.3f} / {writes[-1]:.3f} ms"),
        ("an event of a simulation", f"{1e6 * event:.0f} µs"),
        ("a queued trajectory of 30 turns", f"{trajectory / 1000:.2f} KB"),
    ]  # fmt: skip
    return Table("The scheduler process, rollouts with steps of 5 s", ("what", "seen"), rows)


def _transports(whole: dict[str, Any]) -> Table:
    late = " / ".join(f"{ms:.1f}" for ms in whole["late_ms"])
    rows = [
        ("rollouts at once", f"{whole['rollouts']:.0f}"),
        ("generations and steps a second", f"{whole['steps'] / whole['seconds']:.0f}"),
        ("trajectories recorded a minute", f"{60 * whole['trajectories'] / whole['seconds']:.0f}"),
        ("share of a core", f"{100 * whole['cpu_share']:.0f} %"),
        ("a turn", f"{1e3 * whole['cpu_share'] * whole['seconds'] / whole['steps']:.2f} ms"),
        ("loop late, p50 / p99 / most", f"{late} ms"),
    ]
    return Table("With leases, generations and records", ("what", "seen"), rows)


def _reached(goals: list[Goal]) -> Table:
    rows = [
        (goal.what, f"{goal.measured:.2f}", f"≤ {goal.limit:g}", "✓" if goal.met else "✗")
        for goal in goals
    ]
    return Table("Goals", ("goal", "measured", "limit", "met"), rows)


def _machine() -> str:
    cores, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = platform.python_version()
    return f"{cores} cores, {platform.system()}, Python {python}, load {busy:.1f} at the end"


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
