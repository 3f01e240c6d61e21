"""A run whose rollouts only sleep: what is left is the work of the scheduler process itself."""

from __future__ import annotations

import asyncio
import gc
import random
import resource
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mintact_platform import config as configuration
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.rollouter import Judged
from mintact_platform.scheduler import seen
from mintact_platform.scheduler.changes import Changes
from mintact_platform.scheduler.produce import Producer
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.scheduler.tasks import TaskStream
from mintact_platform.storage import ledger
from mintact_platform.storage.database import Database, Operation
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

TURNS = 30
DOMAINS = ("web", "tools", "desktop", "mobile")
QUOTA = 1
TICK = 0.005


@dataclass
class Load:
    """What was seen while it ran.

    Attributes:
        rollouts: at once, on average.
        steps: environment steps.
        groups: ended.
        batches: formed.
        seconds: of the measurement.
        cpu: seconds of processor time of the process, all threads.
        lag: milliseconds a timer came too late, sorted.
        writes: milliseconds each call of the database held the loop, by the clock.
        writes_cpu: the same in processor time, which a busy machine does not stretch.
    """

    rollouts: float = 0.0
    steps: int = 0
    groups: int = 0
    batches: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    lag: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    writes_cpu: list[float] = field(default_factory=list)

    def late(self, share: float) -> float:
        """A percentile of the lag, ms."""
        return self.lag[min(len(self.lag) - 1, int(share * len(self.lag)))] if self.lag else 0.0


class SleepingRollouter:
    """Plays by sleeping, a step at a time; judges by a coin."""

    def __init__(self, active: int, step_seconds: float) -> None:
        self.ids, self.active = UlidSource(), active
        self.running, self.waiting = 0, dict.fromkeys(DOMAINS, 0)
        self.step_seconds, self.steps = step_seconds, 0
        self.draw = random.Random(0)
        self.first = active

    def prepare(self, domain: str, task: Task, episode: str) -> bool:
        return False

    def forget(self, domain: str, episode: str) -> None:
        pass

    async def play(self, domain: str, task: Task, key: Any) -> Trajectory:
        self.running += 1
        turns = TURNS
        if self.first > 0:
            # groups of the first moment are already under way, each somewhere
            self.first -= 1
            turns = random.Random(key.group).randint(1, TURNS)
        try:
            for _ in range(turns):
                await asyncio.sleep(self.step_seconds * self.draw.uniform(0.5, 1.5))
                self.steps += 1
        finally:
            self.running -= 1
        return Trajectory(key.id, key.group, key.member, key.attempt, task, Outcome.COMPLETED)

    async def judge(self, domain: str, trajectory: Trajectory) -> Judged:
        verdict = Verdict("success", float(self.draw.random() < 0.5))
        return Judged(trajectory, verdict, trajectory.outcome, None)


@asynccontextmanager
async def running(path: Path, active: int, step_seconds: float) -> AsyncIterator[dict[str, Any]]:
    """Producer and a trainer that trains at once, on a real run directory."""
    section = {"environment": "e", "tasks": "t:train", "quota": QUOTA}
    config = configuration.parse(
        {
            "name": "run",
            "domains": dict.fromkeys(DOMAINS, section),
            "rollout": {"group_size": 8, "active": active},
        }
    )
    directory = RunDirectory.create(path, config_toml="", plugins={}, metadata={})
    rollouter = SleepingRollouter(active, step_seconds)
    tasks = {d: [Task(f"{d}-{n}", "open the mail", d) for n in range(200)] for d in DOMAINS}
    try:
        async with producing(config, directory, rollouter, tasks) as scheduler:
            yield {"scheduler": scheduler, "rollouter": rollouter, "directory": directory}
    finally:
        directory.close()


@asynccontextmanager
async def producing(
    config: configuration.RunConfig,
    directory: RunDirectory,
    rollouter: Any,
    tasks: Mapping[str, Sequence[Task]],
) -> AsyncIterator[Scheduler]:
    """A producer of groups and a trainer that trains at once."""
    scheduler = Scheduler(config.quotas, max_staleness=64)
    changes = Changes()
    unused: Any = SimpleNamespace(notify=lambda *a, **k: None, blame=lambda *a: None)
    producer = Producer(
        config,
        scheduler,
        rollouter,
        directory,
        streams={d: TaskStream(some, seed=0) for d, some in tasks.items()},
        hooks=Registry.discover().manager.hook,
        observers=unused,
        changes=changes,
    )
    work = [
        asyncio.create_task(producer.run()),
        asyncio.create_task(train(scheduler, directory, changes)),
    ]
    try:
        yield scheduler
        for task in work:
            if task.done():
                task.result()
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def train(scheduler: Scheduler, directory: RunDirectory, changes: Changes) -> None:
    while True:
        noticed = changes.count
        batch = scheduler.form_batch(time.monotonic())
        if batch is None or not batch.groups:
            await changes.beyond(noticed, 0.25)
            continue
        ids = [group.id for group in batch.groups]
        await directory.database.write(
            ledger.begin_step(batch.step, ids, scheduler.version, batch.realised, 0, "x"),
            *seen.record(batch, time.time()),
        )
        await directory.database.write(ledger.finish_step(batch.step, {}))
        scheduler.step_done(batch.step)
        if scheduler.push_due:
            scheduler.pushed(scheduler.version + 1)
        changes.tell()


async def measure(path: Path, *, active: int, step_seconds: float, seconds: float) -> Load:
    """Let it run for so long, after as long as it takes to be full."""
    load = Load()
    async with running(path, active, step_seconds) as run:
        rollouter, scheduler = run["rollouter"], run["scheduler"]
        async with asyncio.timeout(60):
            while rollouter.running < active - 8:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        watch(run["directory"].database, load)
        gc.collect()
        before, cpu, start = rollouter.steps, cpu_seconds(), time.monotonic()
        ended, batches = _ended(scheduler), scheduler.step
        samples = []
        while (now := time.monotonic()) - start < seconds:
            await asyncio.sleep(TICK)
            load.lag.append(1000 * (time.monotonic() - now - TICK))
            samples.append(rollouter.running)
        load.seconds, load.cpu = time.monotonic() - start, cpu_seconds() - cpu
        load.steps, load.rollouts = rollouter.steps - before, sum(samples) / len(samples)
        load.groups, load.batches = _ended(scheduler) - ended, scheduler.step - batches
    load.lag.sort()
    return load


def watch(database: Database, load: Load) -> None:
    """Time what a write keeps the calling thread busy with."""
    submit = database.submit

    def timed(*operations: Operation) -> Future[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return submit(*operations)
        finally:
            load.writes.append(1000 * (time.perf_counter() - wall))
            load.writes_cpu.append(1000 * (time.thread_time() - cpu))

    database.submit = timed  # type: ignore[method-assign]


def cpu_seconds() -> float:
    """Processor time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _ended(scheduler: Scheduler) -> int:
    return sum(s["accepted"] + s["filtered"] for s in scheduler.status(0.0).values())
