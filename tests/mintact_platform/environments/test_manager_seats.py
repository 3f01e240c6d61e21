"""Seats: what is lost is replaced, what comes to nothing is retried ever more slowly."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mintact_platform import processes
from mintact_platform.config import Deadlines
from mintact_platform.environments.pools import local
from mintact_platform.environments.pools import servers as rounds
from mintact_platform.environments.pools.local import DEATHS, LocalServer, ServerGivenUp
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.environments.pools.seats import BACKOFF, Seats
from mintact_platform.environments.server.quarantine import FAILURES
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

OWN_PAUSES = {min(BACKOFF[0] * 2**n, BACKOFF[1]) for n in range(12)}
COUNT, RAISE = ({"name": name, "arguments": {}} for name in ("count", "raise"))


@pytest.fixture
async def make(server, tmp_path):
    """Start managers of one pool, closed at the end of the test."""
    made = []

    async def make(environment="trial_envs:Counter", *, servers=(server.url,), **options):
        spec = PoolSpec(environment, servers=servers, **{"instances": 1, **options})
        manager = EnvironmentManager(
            {"web": spec}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
        )
        made.append(manager)
        await manager.start()
        return manager

    yield make
    for manager in made:
        await manager.close()


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that seats take, without taking them."""
    taken = []

    async def rest(self, seconds):
        if seconds > 0:
            taken.append(seconds)
            await asyncio.sleep(0)

    monkeypatch.setattr(Seats, "_rest", rest)
    return taken


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def play(manager, episode, action=COUNT, task="t"):
    async with manager.acquire("web") as lease:
        wanted = Task(task, "goal", "web")
        await lease.reset(episode=episode, task=wanted, seed=0, deadline=60)
        await lease.step(step=0, action=action, deadline=60)
        return lease


async def fail(manager, episode, **options):
    with pytest.raises(EnvironmentFailure) as caught:
        await play(manager, episode, **options)
    return caught.value


async def test_instances_that_boot_but_never_reset_are_replaced_ever_more_slowly(make, pauses):
    manager = await make("trial_envs:NeverResets")
    for number in range(3):
        failure = await fail(manager, f"e{number}")
        assert (failure.phase, failure.kind) == ("reset", "RuntimeError")
        await until(lambda: manager.stats()["web"].starting == 0)
    waits = [seconds for seconds in pauses if seconds in OWN_PAUSES]
    assert waits[:3] == [BACKOFF[0], 2 * BACKOFF[0], 4 * BACKOFF[0]]


async def test_an_instance_that_worked_is_replaced_at_once(make, pauses):
    manager = await make()
    for number in range(3):
        await play(manager, f"good-{number}")
        await fail(manager, f"bad-{number}", action={"name": "crash", "arguments": {}})
        await until(lambda: manager.stats()["web"].idle == 1)
    assert pauses == []
    stats = manager.stats()["web"]
    assert (stats.failed, stats.recovery.count, stats.boot.count) == (3, 3, 4)


async def test_a_quarantine_is_waited_for_as_told(start_server, make, pauses):
    alone = await start_server()
    manager = await make("trial_envs:NeverResets", servers=(alone.url,))
    failures = 0
    while not set(pauses) - OWN_PAUSES and failures < 2 * FAILURES:
        await fail(manager, f"e{failures}")
        failures += 1
    assert set(pauses) - OWN_PAUSES, "the server refuses for a second or more by now"
    assert failures >= FAILURES, "a server that did not refuse yet told nobody to wait"


async def test_a_pause_ends_when_a_server_answers_again(make):
    manager = await make()
    seats = manager._seats["web"]
    resting = asyncio.create_task(seats._rest(1000))
    await asyncio.sleep(0)
    seats.stir()
    await resting


async def test_an_environment_that_raised_is_reset_and_kept(make):
    manager = await make()
    await play(manager, "good")
    failure = await fail(manager, "bad", action=RAISE)
    assert failure.kind == "ValueError"
    lease = await play(manager, "after")
    stats = manager.stats()["web"]
    assert (stats.mended, stats.failed, stats.idle) == (1, 0, 1)
    assert lease.healthy


async def test_an_instance_that_raises_on_task_after_task_is_replaced(make):
    manager = await make()
    for number in range(3):
        await fail(manager, f"e{number}", action=RAISE, task=f"t{number}")
    await until(lambda: manager.stats()["web"].idle == 1)
    assert manager.stats()["web"].failed == 1


async def test_one_task_that_fails_again_and_again_costs_no_instance(make):
    manager = await make()
    for number in range(5):
        await fail(manager, f"e{number}", action=RAISE, task="same")
    await until(lambda: manager.stats()["web"].idle == 1)
    assert (manager.stats()["web"].failed, manager.stats()["web"].mended) == (0, 5)


async def test_steps_say_when_the_pool_last_worked(make):
    manager = await make()
    assert manager.stats()["web"].last_success is None
    await play(manager, "e")
    first = manager.stats()["web"].last_success
    await fail(manager, "f", action=RAISE)
    assert manager.stats()["web"].last_success == first
    timings = manager.stats()["web"].timings()
    assert {name: some.count for name, some in timings.items()} == {
        "acquire": 2,
        "boot": 1,
        "reset": 2 + manager.stats()["web"].mended,
        "step": 1,
        "recovery": 0,
    }


# ---- the server of this machine ---


@pytest.fixture
def here(trial_path, monkeypatch):
    """Marks what is started here; nothing of it may be left."""
    monkeypatch.setenv("PYTHONPATH", str(trial_path))
    monkeypatch.setenv("MINTACT_MARK", f"seats-{os.urandom(4).hex()}")
    yield
    assert processes.marked(os.environ["MINTACT_MARK"]) == []


async def test_a_local_server_that_dies_again_and_again_is_given_up(here, tmp_path, server_pid):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    server = LocalServer(tmp_path, 60, {}, sleep=sleep)
    for _ in range(DEATHS):
        assert (await server.url()).startswith("http://127.0.0.1:")
        os.kill(server_pid(), signal.SIGKILL)
        server._child.process.wait()
    assert slept == [0.2, 0.4, 0.8]
    with pytest.raises(ServerGivenUp, match=r"died 5 times in 300 s; see .*environments.log"):
        await server.url()
    await server.stop()


async def test_rollouts_are_told_at_once_when_the_local_server_was_given_up(
    here, make, monkeypatch, server_pid
):
    manager = await make("trial_envs:Shared", servers=())
    monkeypatch.setattr(local, "DEATHS", 1)
    os.kill(server_pid(), signal.SIGKILL)

    async def rollouts():
        while True:
            async with manager.acquire("web"):
                await asyncio.sleep(0)

    with pytest.raises(ServerGivenUp, match="died 1 times"):
        await rollouts()
    await manager.close()


async def test_a_local_server_that_hangs_is_killed_and_replaced(
    here, make, monkeypatch, server_pid
):
    monkeypatch.setattr(rounds, "ASK", 0.2)
    monkeypatch.setattr(rounds, "BEAT", 0.5)
    manager = await make("trial_envs:Shared", servers=(), instances=2)
    await until(lambda: manager.stats()["web"].idle == 2)
    os.kill(server_pid(), signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        # only now: the server before and the one after it may be slow
        impatient.setattr(rounds, "HUNG", 1.0)
        impatient.setattr(rounds, "_BEATEN", 0.8)
        await until(lambda: manager.stats()["web"].failed == 2)
    await play(manager, "e")
    await until(lambda: manager.stats()["web"].idle == 2)
    await manager.close()
