import asyncio
import os
import signal
import time

import pytest

from mintact_platform import processes
from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

COUNT = {"name": "count", "arguments": {}}


@pytest.fixture
def make(trial_path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(trial_path))
    monkeypatch.setenv("MINTACT_MARK", f"manager-{os.urandom(4).hex()}")

    def make(**pools):
        return EnvironmentManager(
            pools, deadlines=Deadlines(), log_directory=tmp_path / "logs", incarnation=1
        )

    yield make
    assert processes.marked(os.environ["MINTACT_MARK"]) == [], "the manager left a process"


async def play(lease, task, episode):
    await lease.reset(episode=episode, task=task, seed=0, deadline=60)
    return await lease.step(step=0, action=COUNT, deadline=60)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_lease_is_exclusive_and_comes_back(make, task):
    manager = make(web=PoolSpec("trial_envs:Shared", instances=2))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 2)
    users, most = {}, 0

    async def rollout(n):
        nonlocal most
        async with manager.acquire("web") as lease:
            users[lease.id] = users.get(lease.id, 0) + 1
            assert users[lease.id] == 1, "two rollouts share a lease"
            most = max(most, sum(users.values()))
            await play(lease, task, f"e{n}")
            users[lease.id] -= 1

    await asyncio.gather(*(rollout(n) for n in range(10)))
    stats = manager.stats()["web"]
    assert most == 2
    assert (stats.idle, stats.busy, stats.failed, stats.acquired) == (2, 0, 0, 10)
    await manager.close()


async def test_a_broken_lease_is_replaced_and_the_healthy_one_is_kept(make, task):
    manager = make(web=PoolSpec("trial_envs:Counter", instances=1))
    await manager.start()
    async with manager.acquire("web") as first:
        await play(first, task, "e")

    async def crash():
        async with manager.acquire("web") as broken:
            assert broken is first
            await broken.reset(episode="f", task=task, seed=0, deadline=60)
            await broken.step(step=0, action={"name": "crash", "arguments": {}}, deadline=60)

    with pytest.raises(EnvironmentFailure, match="worker died"):
        await crash()
    async with manager.acquire("web") as second:
        assert second.id != first.id
        assert (await play(second, task, "g")).text.startswith("1 in ")
    assert manager.stats()["web"].failed == 1
    await manager.close()


async def test_a_call_left_unfinished_costs_the_lease(make, task):
    manager = make(web=PoolSpec("trial_envs:Counter", instances=1))
    await manager.start()

    async def rollout():
        async with manager.acquire("web") as lease:
            used.append(lease)
            await lease.reset(episode="e", task=task, seed=0, deadline=60)
            await lease.step(step=0, action={"name": "hang", "arguments": {}}, deadline=60)

    used = []
    work = asyncio.create_task(rollout())
    await until(lambda: used and not used[0].healthy)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    async with manager.acquire("web") as lease:
        assert lease is not used[0]
        await play(lease, task, "f")
    await manager.close()


async def test_the_pool_survives_the_death_of_its_server(make, task, server_pid):
    manager = make(web=PoolSpec("trial_envs:Counter", instances=2))
    await manager.start()
    async with manager.acquire("web") as lease:
        await play(lease, task, "e")
        os.kill(server_pid(), signal.SIGKILL)
        start = time.monotonic()
        with pytest.raises(EnvironmentFailure) as caught:
            await lease.step(step=1, action=COUNT, deadline=60)
        assert caught.value.kind == "unreachable"
        assert time.monotonic() - start < 30, "a dead server is noticed long before the deadline"
    async with manager.acquire("web") as lease:
        await play(lease, task, "f")
    await manager.close()


async def test_pools_share_a_local_server_and_spread_over_given_ones(
    make, task, server, start_server
):
    other = await start_server()
    urls = (server.url, other.url)
    manager = make(
        a=PoolSpec("trial_envs:Awaited", instances=1),
        b=PoolSpec("trial_envs:Shared", instances=1, image_format="jpeg"),
        far=PoolSpec("trial_envs:Shared", instances=4, servers=urls),
    )
    await manager.start()
    await until(lambda: all(pool.starting == 0 for pool in manager.stats().values()))
    async with manager.acquire("a") as a, manager.acquire("b") as b:
        assert a.server == b.server
        assert (await play(b, task, "e")).images[0].format == "jpeg"
    assert sorted(await everyone(manager, task)) == sorted(urls * 2)
    other.child.kill()
    assert None in await everyone(manager, task)
    assert await everyone(manager, task) == [server.url] * 4
    await manager.close()


async def everyone(manager, task):
    """Hold all four leases of `far` at once; the server of each, None where it failed."""
    together = asyncio.Barrier(4)

    async def rollout():
        async with manager.acquire("far") as lease:
            await together.wait()
            await play(lease, task, os.urandom(4).hex())
            return lease.server

    tried = await asyncio.gather(*(rollout() for _ in range(4)), return_exceptions=True)
    return [None if isinstance(one, EnvironmentFailure) else one for one in tried]


async def test_a_pool_that_can_never_start_says_so(make):
    manager = make(web=PoolSpec("trial_envs:Shared", params={"sise": 1}))
    with pytest.raises(ConfigurationError, match="unknown parameter 'sise'"):
        await manager.start()


async def test_a_pool_whose_instances_all_fail_says_why(make):
    manager = make(web=PoolSpec("trial_envs:Shared", params={"fail": True}, instances=2))
    with pytest.raises(EnvironmentFailure, match="no display"):
        await manager.start()


async def test_a_manager_cancelled_while_it_starts_leaves_nothing(make, fifo):
    manager = make(web=PoolSpec("trial_envs:Counter", params={"boot": str(fifo())}, instances=2))
    starting = asyncio.create_task(manager.start())
    await until(lambda: len(processes.marked(os.environ["MINTACT_MARK"])) >= 2)
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    await manager.close()


async def test_no_instance_of_a_worker_that_died_is_handed_out(make, task):
    manager = make(web=PoolSpec("trial_envs:Siblings", instances=4))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 4)
    async with manager.acquire("web") as lease:
        await lease.reset(episode="first", task=task, seed=0, deadline=60)
        with pytest.raises(EnvironmentFailure):
            await lease.step(step=0, action={"name": "crash", "arguments": {}}, deadline=60)
    for number in range(4):
        async with manager.acquire("web") as lease:
            await play(lease, task, f"after-{number}")
    await manager.close()
