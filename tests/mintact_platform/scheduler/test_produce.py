"""While no rollout may start, the producer resets ahead for the very group it will begin next."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mintact_platform import config as configuration
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.rollouts.rollouter import Judged
from mintact_platform.scheduler.changes import Changes
from mintact_platform.scheduler.flow import NoFlowControl
from mintact_platform.scheduler.produce import Producer
from mintact_platform.scheduler.quota import FixedMixture
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.scheduler.tasks import TaskStream
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

TASKS = [Task(f"t{number}", "goal", "web") for number in range(50)]


class Rollouter:
    """Plays when the test lets it; remembers what was prepared."""

    def __init__(self, active):
        self.ids, self.active = UlidSource(), active
        self.running, self.waiting = 0, {"web": 0}
        self.prepared, self.forgotten, self.played = {}, [], []
        self.idle = 2
        self.gate = asyncio.Event()

    def prepare(self, domain, task, episode):
        if episode in self.prepared:
            return True
        if len(self.prepared) >= self.idle:
            return False
        self.prepared[episode] = task.id
        return True

    def forget(self, domain, episode):
        self.forgotten.append(episode)

    async def play(self, domain, task, key):
        self.running += 1
        self.played.append((key.id, task.id))
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return Trajectory(
            key.id, key.group, key.member, key.attempt, task, Outcome.ENVIRONMENT_FAILURE
        )

    async def judge(self, domain, trajectory):
        return Judged(trajectory, None, trajectory.outcome, trajectory.failure)


@pytest.fixture
def producing(tmp_path):
    """A producer of one domain, two rollouts a group, two at a time."""
    directories = []

    def make(mode="async"):
        domain = {"environment": "e", "tasks": "t:train", "quota": 1}
        config = configuration.parse(
            {
                "name": "run",
                "model": {"path": "m"},
                "domains": {"web": domain},
                "rollout": {"group_size": 2, "active": 2, "retries": 0},
                "schedule": {"mode": mode, "capacity_batches": 8},
            }
        )
        scheduler = Scheduler(
            config.quotas,
            mixture=FixedMixture(config.quotas),
            flow=NoFlowControl(config.quotas),
            capacity_batches=8,
            mode=mode,
        )
        rollouter = Rollouter(active=2)
        directory = RunDirectory.create(tmp_path / mode, config_toml="", plugins={}, metadata={})
        directories.append(directory)
        unused: Any = SimpleNamespace(notify=lambda *args, **values: None)
        producer = Producer(
            config,
            scheduler,
            rollouter,
            directory,
            streams={"web": TaskStream(TASKS, seed=0)},
            hooks=unused,
            observers=unused,
            changes=Changes(),
        )
        return producer, rollouter

    yield make
    for directory in directories:
        directory.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_group_that_is_next_is_prepared_and_begun_under_the_same_names(producing):
    producer, rollouter = producing()
    running = asyncio.create_task(producer.run())

    def all_begun_play():
        in_flight = producer.scheduler.status(0.0)["web"]["in_flight"]
        return len(rollouter.played) == 2 * in_flight

    await until(lambda: len(rollouter.prepared) == 2 and all_begun_play())
    begun, prepared = len(rollouter.played), dict(rollouter.prepared)
    order = TaskStream(TASKS, seed=0, position=begun // 2)
    assert set(prepared.values()) == {order.next().id}
    rollouter.gate.set()
    await until(lambda: len(rollouter.played) >= begun + 2)
    assert dict(rollouter.played[begun : begun + 2]) == prepared
    running.cancel()
    await asyncio.wait([running])


async def test_what_was_prepared_for_a_run_that_ends_is_forgotten(producing):
    producer, rollouter = producing()
    running = asyncio.create_task(producer.run())
    await until(lambda: len(rollouter.prepared) == 2)
    running.cancel()
    await asyncio.wait([running])
    assert set(rollouter.prepared) <= set(rollouter.forgotten)


async def test_more_is_prepared_as_more_environments_stand_idle(producing):
    producer, rollouter = producing()
    rollouter.idle = 1
    running = asyncio.create_task(producer.run())
    await until(lambda: len(rollouter.prepared) == 1)
    first = dict(rollouter.prepared)
    rollouter.idle = 2
    await until(lambda: len(rollouter.prepared) == 2)
    assert set(first) < set(rollouter.prepared)
    assert len(set(rollouter.prepared.values())) == 1, "both are members of the same group"
    running.cancel()
    await asyncio.wait([running])


async def test_synchronous_rounds_prepare_nothing(producing):
    producer, rollouter = producing("synchronous")
    running = asyncio.create_task(producer.run())
    await until(lambda: len(rollouter.played) >= 2)
    await producer.changes.beyond(producer.changes.count, 0.5)
    assert rollouter.prepared == {}
    running.cancel()
    await asyncio.wait([running])
