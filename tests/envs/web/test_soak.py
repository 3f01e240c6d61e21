"""Sixteen episodes at once while browser processes are killed: all end typed, nothing is left."""

import asyncio
import contextlib
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from mintact_env_web.synth.oracle import random_call
from mintact_env_web.synth.tasks import SynthTasks

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure

AT_ONCE = 16
TURNS = 8
STOP = {"name": "browser_use", "arguments": {"action": "stop", "response": "done"}}


@dataclass
class Stretch:
    """What happened while episodes ran, with kills or without."""

    seconds: float = 0.0
    steps: int = 0
    kills: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    """`finished`, or phase and kind of the failure."""

    @property
    def rate(self):
        return self.steps / self.seconds

    @property
    def failed(self):
        return self.outcomes.total() - self.outcomes["finished"]

    def __iadd__(self, other):
        self.seconds += other.seconds
        self.steps += other.steps
        self.kills += other.kills
        self.outcomes += other.outcomes
        return self


@pytest.fixture
def folder(monkeypatch):
    """The temporary directory of everything started here; short, since sockets lie in it."""
    path = Path(tempfile.mkdtemp(prefix="soak"))
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def manager(folder, mark, tmp_path):
    """Real leases, all instances in one worker and so in one browser."""
    manager = EnvironmentManager(
        {"web": PoolSpec("web/synth", {"width": 640, "height": 360}, instances=AT_ONCE)},
        deadlines=Deadlines(),
        log_directory=tmp_path,
        incarnation=1,
    )
    await manager.start()
    yield manager
    await manager.close()


def chromium():
    """The browser's processes below this one, the browser itself first."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if line and "chrom" in Path(line[0]).name and "--headless" in " ".join(line):
                found.append((kind_of(line), process))
            elif any(part.startswith("--type=") for part in line):
                found.append((kind_of(line), process))
    return sorted(found, key=lambda entry: entry[0] != "browser")


def kind_of(line):
    kinds = [part.removeprefix("--type=") for part in line if part.startswith("--type=")]
    return kinds[0] if kinds else "browser"


async def episode(manager, rng, number, stretch):
    """Play at random; how it ended. Whatever is no typed failure fails the test."""
    task = SynthTasks("train")[4 * (number % 12)]
    try:
        async with manager.acquire("web") as lease:
            await lease.reset(episode=f"e{number}", task=task, seed=number, deadline=90)
            for step in range(TURNS):
                call = random_call(rng, 640, 360) if step < TURNS - 1 else STOP
                seen = await lease.step(step=step, action=call, deadline=60)
                stretch.steps += 1
                if seen.terminated:
                    break
            check = await lease.evaluate(deadline=60)
            assert check is not None
    except EnvironmentFailure as failure:
        return f"{failure.phase}: {failure.kind}"
    return "finished"


async def killing(rng, every, stretch):
    """Kill one process now and then: every third time the browser, else any of its helpers."""
    while True:
        await asyncio.sleep(rng.expovariate(1 / every))
        running = await asyncio.to_thread(chromium)
        if running:
            kind, victim = running[0] if rng.random() < 1 / 3 else rng.choice(running)
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
                stretch.kills[kind] += 1


async def soak(manager, seconds, *, every=None, seed=0):
    """Keep so many episodes going until the time is over; those that run are played out.

    Args:
        manager: of the leases.
        seconds: how long.
        every: seconds between two kills in the mean, None for none.
        seed: of the players and the kills.
    """
    rng, stretch, begin = random.Random(seed), Stretch(), time.monotonic()
    numbers = iter(range(seed * 1_000_000, 1 << 40))

    async def player():
        while time.monotonic() < begin + seconds:
            outcome = await episode(manager, rng, next(numbers), stretch)
            stretch.outcomes[outcome] += 1

    killer = asyncio.create_task(killing(rng, every, stretch)) if every else None
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(player())
    if killer is not None:
        killer.cancel()
        await asyncio.wait([killer])
    stretch.seconds = time.monotonic() - begin
    return stretch


def episodes_on_disk(folder):
    return list(folder.glob("mintact-web-*/episode-*"))


def browsers_on_disk(folder):
    return [path for path in folder.glob("mintact-web-*") if (path / "downloads").is_dir()]


async def nothing_is_left(manager, folder, gone):
    """First what must not have grown, then, after the end, whatever there still is."""
    assert len(episodes_on_disk(folder)) <= AT_ONCE
    assert len(browsers_on_disk(folder)) <= 1
    listening = [s for s in psutil.Process().net_connections() if s.status == psutil.CONN_LISTEN]
    await manager.close()
    await gone()
    after = [s for s in psutil.Process().net_connections() if s.status == psutil.CONN_LISTEN]
    assert len(after) <= len(listening)
    assert sorted(path.name for path in folder.iterdir()) == []


def report(calm, struck):
    share = struck.rate / calm.rate
    print(f"\nwithout kills {calm.rate:.1f} steps/s, with {struck.rate:.1f}: {share:.0%}")
    print(f"killed {dict(struck.kills)}; outcomes {dict(struck.outcomes)}")
    return share


@pytest.mark.runs
@pytest.mark.browser
async def test_episodes_end_with_an_outcome_and_leave_nothing_when_browsers_are_killed(
    manager, folder, gone
):
    calm = await soak(manager, 5, seed=1)
    assert calm.failed == 0
    assert calm.outcomes["finished"] >= AT_ONCE
    struck = await soak(manager, 12, every=2.0, seed=2)
    report(calm, struck)
    assert struck.kills.total() >= 1
    # whoever comes after the kills finds a browser
    after = await soak(manager, 0.1, seed=3)
    assert after.outcomes["finished"] >= 1
    await nothing_is_left(manager, folder, gone)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(3000)
async def test_ten_minutes_of_kills_cost_less_than_a_fifth_of_the_throughput(manager, folder, gone):
    calm, struck = Stretch(), Stretch()
    await soak(manager, 5)
    # in turns, so that a machine that becomes slower slows both
    for turn in range(10):
        calm += await soak(manager, 30, seed=2 * turn + 1)
        struck += await soak(manager, 60, every=15.0, seed=2 * turn + 2)
    share = report(calm, struck)
    assert struck.kills["browser"] >= 1
    await nothing_is_left(manager, folder, gone)
    assert share >= 0.8
