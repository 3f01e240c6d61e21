"""A manager over several real servers: room, refusals, deaths, hangs, come-backs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter

import pytest

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools import servers as rounds
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

COUNT = {"name": "count", "arguments": {}}


@pytest.fixture
async def make(tmp_path, monkeypatch):
    """Make managers with quick rounds, closed at the end of the test."""
    monkeypatch.setattr(rounds, "ASK", 0.2)
    monkeypatch.setattr(rounds, "BEAT", 1.0)
    monkeypatch.setattr(rounds, "_ANSWER", 60.0)
    made = []

    def make(**pools):
        manager = EnvironmentManager(
            pools, deadlines=Deadlines(close=2), log_directory=tmp_path, incarnation=1
        )
        made.append(manager)
        return manager

    yield make
    for manager in made:
        await manager.close()


@pytest.fixture
def impatient(make, monkeypatch):
    """A server that does not answer soon is one that hangs."""
    monkeypatch.setattr(rounds, "_ANSWER", 0.8)
    monkeypatch.setattr(rounds, "_BEATEN", 0.8)


def pool(*servers, environment="trial_envs:Shared", **options):
    return PoolSpec(environment, servers=tuple(s.url for s in servers), **options)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


def homes(manager):
    """Leases of the pool `web` by server."""
    return Counter(lease.server for lease in manager._pools["web"].leases)


async def play(lease, task):
    await lease.reset(episode=os.urandom(4).hex(), task=task, seed=0, deadline=60)
    return await lease.step(step=0, action=COUNT, deadline=60)


async def test_leases_are_spread_by_free_slots(make, start_server):
    small, large = await start_server(capacity=2), await start_server(capacity=6)
    manager = make(web=pool(small, large, instances=4))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 4)
    assert homes(manager) == {small.url: 1, large.url: 3}
    other = make(web=pool(small, large, instances=4))
    await other.start()
    await until(lambda: other.stats()["web"].idle == 4)
    assert homes(other) == {small.url: 1, large.url: 3}


async def test_a_full_server_is_waited_for_while_the_others_are_used(make, start_server, server):
    tiny = await start_server(capacity=1)
    held = await tiny.lease()
    manager = make(web=pool(tiny, server, instances=3), alone=pool(tiny, instances=1))
    starting = asyncio.create_task(manager.start())
    with pytest.raises(EnvironmentFailure, match="all 1 leases are taken"):
        await starting
    await held.release()
    manager = make(web=pool(tiny, server, instances=3))
    await manager.start()


async def test_a_server_that_refuses_is_left_out_and_said_so_once(
    make, start_server, server, caplog, task
):
    choosy = await start_server(environments=["trial_envs:Awaited"])
    manager = make(web=pool(choosy, server, instances=3))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 3)
    assert homes(manager) == {server.url: 3}
    lines = [line for line in caplog.messages if "goes on without" in line]
    assert lines
    assert all(line.startswith(f"web: goes on without {choosy.url}: ") for line in lines)
    nowhere = make(web=pool(choosy, instances=3))
    with pytest.raises(ConfigurationError, match="not served here"):
        await nowhere.start()


@pytest.mark.runs
async def test_the_leases_of_a_killed_server_move_while_a_rollout_still_thinks(
    make, start_server, server, task
):
    doomed = await start_server()
    manager = make(web=pool(doomed, server, instances=4))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 4)

    async def rollout(together):
        async with manager.acquire("web") as lease:
            await play(lease, task)
            await together.wait()
            # thinks: the seat does not wait for it
            await until(lambda: homes(manager) == {server.url: 4})
            await lease.step(step=1, action=COUNT, deadline=60)
            return lease.server

    together = asyncio.Barrier(5)
    playing = [asyncio.create_task(rollout(together)) for _ in range(4)]
    await together.wait()
    assert homes(manager) == {server.url: 2, doomed.url: 2}
    doomed.child.kill()
    ended = await asyncio.gather(*playing, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, EnvironmentFailure)]
    assert sorted(one for one in ended if isinstance(one, str)) == [server.url] * 2
    assert [failure.kind for failure in failures] == ["unreachable"] * 2
    await until(lambda: manager.stats()["web"].idle == 4)
    stats = manager.stats()["web"]
    assert (stats.busy, stats.starting, stats.failed, stats.recovery.count) == (0, 0, 2, 2)
    async with manager.acquire("web") as lease:
        await play(lease, task)


@pytest.mark.runs
async def test_a_server_that_comes_back_gets_leases_again(make, start_server, server, kept_port):
    first = await start_server(port=kept_port)
    manager = make(web=pool(first, server, instances=4))
    await manager.start()
    await until(lambda: homes(manager) == {first.url: 2, server.url: 2})
    first.child.kill()
    await until(lambda: homes(manager) == {server.url: 4})
    again = await start_server(port=kept_port)
    assert again.url == first.url
    await until(lambda: homes(manager) == {again.url: 2, server.url: 2})
    await until(lambda: manager.stats()["web"].idle == 4)


async def test_a_hung_server_loses_its_leases_and_keeps_no_other_waiting(
    make, impatient, start_server, server, task, monkeypatch
):
    monkeypatch.setattr(rounds, "HUNG", 3.0)
    hung = await start_server()
    manager = make(web=pool(hung, server, instances=4), fine=pool(server, instances=1))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 4)
    beats = Counter()
    beat = rounds.Server.beat

    async def counted(self, *args):
        await beat(self, *args)
        beats[self.url] += 1

    monkeypatch.setattr(rounds.Server, "beat", counted)
    process = hung.child.process
    os.kill(process.pid, signal.SIGSTOP)
    try:
        await until(lambda: homes(manager) == {server.url: 4})
        await until(lambda: beats[server.url] >= 1)
        for _ in range(6):
            async with manager.acquire("web") as lease:
                assert lease.server == server.url
                await play(lease, task)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    await until(lambda: homes(manager)[hung.url] == 2)
    await until(lambda: manager.stats()["web"].idle == 4)


async def test_a_hung_server_without_a_substitute_keeps_its_leases(
    make, impatient, start_server, task, monkeypatch
):
    monkeypatch.setattr(rounds, "HUNG", 0.5)
    hung = await start_server()
    manager = make(web=pool(hung, instances=2))
    await manager.start()
    await until(lambda: manager.stats()["web"].idle == 2)
    before = set(manager._pools["web"].leases)
    os.kill(hung.child.process.pid, signal.SIGSTOP)
    server = next(iter(before)).home
    await until(lambda: server.hung)

    async def rollout():
        async with manager.acquire("web") as lease:
            assert lease in before
            await play(lease, task)

    playing = asyncio.create_task(rollout())
    await asyncio.sleep(0)
    assert manager.stats()["web"].busy == 0, "nobody is sent to a server that does not answer"
    os.kill(hung.child.process.pid, signal.SIGCONT)
    await playing
    assert set(manager._pools["web"].leases) == before


async def test_acquire_says_so_when_no_server_answers(make, impatient, start_server):
    hung = await start_server()
    manager = make(web=pool(hung, instances=1))
    await manager.start()
    os.kill(hung.child.process.pid, signal.SIGSTOP)
    server = next(iter(manager._pools["web"].leases)).home
    await until(lambda: not server.trusted)
    manager._deadlines = Deadlines(create=0.2, close=2)
    with pytest.raises(EnvironmentFailure) as caught:
        async with manager.acquire("web"):
            pass
    assert (caught.value.phase, caught.value.kind) == ("create", "timeout")
    os.kill(hung.child.process.pid, signal.SIGCONT)


async def test_one_dead_server_among_the_first_does_not_fail_the_start(make, server):
    # bound and deaf, so that nobody else gets its port
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        spec = PoolSpec("trial_envs:Shared", servers=(dead, server.url), instances=1)
        manager = make(web=spec)
        await manager.start()
        assert homes(manager) == {server.url: 1}
