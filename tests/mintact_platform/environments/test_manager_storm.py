"""Storms over real servers: cancellations at any moment, killed workers and servers, hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal

import httpx
import pytest

from mintact_platform import processes
from mintact_platform.config import Deadlines
from mintact_platform.environments.pools import seats, servers
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

TASKS = [Task(f"t{number}", "goal", "web") for number in range(8)]
ACTIONS = ("count",) * 12 + ("raise", "crash", "hang")


async def until(condition):
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0.02)


def leased(url):
    return httpx.get(f"{url}/v1/environments", timeout=30, trust_env=False).json()["leases"]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.runs) for seed in (1, 2))]
)
async def test_after_a_storm_every_seat_is_filled_and_every_lease_given_back(
    seed, start_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(servers, "ASK", 0.2)
    monkeypatch.setattr(servers, "BEAT", 0.5)
    monkeypatch.setattr(seats, "BACKOFF", (0.05, 0.5))
    rng = random.Random(seed)
    one, two = await start_server(), await start_server()
    instances = 6
    pool = PoolSpec("trial_envs:Counter", instances=instances, servers=(one.url, two.url))
    manager = EnvironmentManager(
        {"web": pool},
        deadlines=Deadlines(reset=5, step=2, close=2),
        log_directory=tmp_path,
        incarnation=1,
    )
    await manager.start()
    users, outcomes = set(), []

    async def rollout(number):
        task, name = rng.choice(TASKS), f"{seed}-{number}"
        if rng.random() < 0.5:
            manager.prepare("web", episode=name, task=task, seed=0)
        await asyncio.sleep(rng.random() * 0.1)
        async with manager.acquire("web", episode=name) as lease:
            assert lease.id not in users, "two rollouts share a lease"
            users.add(lease.id)
            try:
                await lease.reset(episode=name, task=task, seed=0, deadline=5)
                for step in range(3):
                    action = {"name": rng.choice(ACTIONS), "arguments": {}}
                    seen = await lease.step(step=step, action=action, deadline=2)
                    assert seen.text.startswith(f"{step + 1} in "), "another episode's state"
            finally:
                users.discard(lease.id)

    async def bounded(number):
        try:
            await rollout(number)
            outcomes.append("completed")
        except EnvironmentFailure as failure:
            outcomes.append(failure.kind)

    running, number = set(), 0
    # where servers are slow, most are cancelled before they end
    while number < 60 or "completed" not in outcomes or len(set(outcomes)) < 2:
        while len(running) < 10:
            running.add(asyncio.create_task(bounded(number)))
            number += 1
        if rng.random() < 0.4:
            rng.choice(sorted(running, key=lambda task: task.get_name())).cancel()
        if rng.random() < 0.05:
            victims = processes.marked(f"{rng.choice((one, two)).mark}/workers")
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(victims), signal.SIGKILL)
        done, running = await asyncio.wait(
            running, timeout=0.05, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            if not task.cancelled():
                task.result()
        stats = manager.stats()["web"]
        assert stats.idle + stats.busy + stats.starting == instances
        assert stats.starting >= 0
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await until(lambda: manager.stats()["web"].idle == instances)
    await until(lambda: leased(one.url) + leased(two.url) == instances)
    await manager.close()
    await until(lambda: leased(one.url) + leased(two.url) == 0)
    await until(lambda: not processes.marked(f"{one.mark}/workers"))


async def test_cancelled_at_any_await_a_rollout_leaves_no_lease(start_server, tmp_path):
    """One task a number of loop turns: it is cancelled some turns later each time, till it ends."""
    server = await start_server()
    pool = PoolSpec("trial_envs:Awaited", instances=2, servers=(server.url,))
    manager = EnvironmentManager(
        {"web": pool}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()

    async def rollout(name):
        manager.prepare("web", episode=name, task=TASKS[0], seed=0)
        async with manager.acquire("web", episode=name) as lease:
            await lease.reset(episode=name, task=TASKS[0], seed=0, deadline=60)
            await lease.step(step=0, action={"name": "count", "arguments": {}}, deadline=60)

    turns, playing = 0, None
    while playing is None or playing.cancelled():
        # one more, later a hundredth more: how many there are depends on the machine
        turns += 1 + turns // 100
        await until(lambda: manager.stats()["web"].idle == 2)
        playing = asyncio.create_task(rollout(f"e{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        playing.cancel()
        await asyncio.wait([playing])
    playing.result()
    assert turns > 5
    await until(lambda: manager.stats()["web"].idle == 2)
    await until(lambda: leased(server.url) == 2)
    await manager.close()
    await until(lambda: leased(server.url) == 0)
