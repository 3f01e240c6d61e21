"""Resets ahead of their rollouts, on real servers: found ready, made once, never in the way."""

from __future__ import annotations

import asyncio
import os

import pytest

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools import servers as rounds
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

SLOW, QUICK = Task("slow", "goal", "web"), Task("quick", "goal", "web")


class Site:
    """A pool whose environment is slow to reset for some tasks, and what it did."""

    def __init__(self, manager, folder, mkfifo):
        self.manager, self.folder, self._mkfifo = manager, folder, mkfifo

    def close_gate(self, task):
        self._mkfifo(self.folder / task.id)

    async def open_gate(self, task, word="go"):
        """Let who waits at the gate go on; it is gone before anybody can come to it again."""

        def let_go(gate):
            with gate.open("w") as fifo:
                gate.unlink()
                fifo.write(word)

        await asyncio.to_thread(let_go, self.folder / task.id)

    def did(self):
        journal = self.folder / "journal"
        return journal.read_text().split("\n")[:-1] if journal.exists() else []

    def prepare(self, episode, task, **options):
        return self.manager.prepare("web", episode=episode, task=task, seed=0, **options)

    async def reset(self, episode, task):
        async with self.manager.acquire("web", episode=episode) as lease:
            return await lease.reset(episode=episode, task=task, seed=0, deadline=60)

    def workers(self):
        """Names of the workers in which the pool's leases live."""
        leases = self.manager._pools["web"].leases
        return {lease.instance.rpartition("@")[2].partition(".")[0] for lease in leases}

    def counts(self):
        stats = self.manager.stats()["web"]
        return stats.idle, stats.busy, stats.starting


@pytest.fixture
async def site(server, tmp_path, monkeypatch):
    """A started pool of two instances, whose losses are soon known."""
    monkeypatch.setattr(rounds, "ASK", 0.2)
    monkeypatch.setattr(rounds, "BEAT", 0.5)
    params = {"gates": str(tmp_path), "journal": str(tmp_path / "journal")}
    spec = PoolSpec("trial_envs:Gated", params, instances=2, servers=(server.url,))
    manager = EnvironmentManager(
        {"web": spec}, deadlines=Deadlines(close=1), log_directory=tmp_path / "logs", incarnation=1
    )
    await manager.start()
    site = Site(manager, tmp_path, os.mkfifo)
    await until(lambda: site.counts() == (2, 0, 0))
    yield site
    await manager.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_rollout_finds_its_slow_reset_done_and_nothing_is_reset_twice(site):
    site.close_gate(SLOW)
    assert site.prepare("e1", SLOW)
    await until(lambda: site.did() == ["begin slow"])
    assert (await site.reset("e2", QUICK)).text == "quick", "the other lease is not in its way"
    await site.open_gate(SLOW)
    await until(lambda: "end slow" in site.did())
    before = site.did()
    site.close_gate(SLOW)  # a second reset would never come back
    assert (await site.reset("e1", SLOW)).text == "slow"
    assert site.did() == before
    stats = site.manager.stats()["web"]
    assert (stats.found, stats.reset.count, site.counts()) == (1, 2, (2, 0, 0))


async def test_steps_go_on_from_the_observation_made_ahead(site):
    site.prepare("e1", QUICK)
    async with site.manager.acquire("web", episode="e1") as lease:
        await lease.reset(episode="e1", task=QUICK, seed=0, deadline=60)
        seen = await lease.step(step=0, action={"name": "count", "arguments": {}}, deadline=60)
        assert seen.text.startswith("1 in ")
        assert lease.last_success is not None
    assert site.manager.stats()["web"].last_success == lease.last_success


async def test_an_episode_may_come_back_to_the_lease_that_was_taken_from_it(site):
    async with site.manager.acquire("web"):
        site.prepare("e1", QUICK)
        await until(lambda: site.did() == ["begin quick", "reset", "end quick"])
        # the only lease left is the prepared one: this takes it, and is given a reset of its own
        assert (await site.reset("e2", SLOW)).text == "slow"
        assert (await site.reset("e1", QUICK)).text == "quick"
    assert [line for line in site.did() if line.startswith("begin")] == [
        "begin quick",
        "begin slow",
        "begin quick",
    ]


async def test_a_failed_reset_ahead_is_made_again_on_another_instance(site):
    site.close_gate(SLOW)
    site.prepare("e1", SLOW)
    playing = asyncio.create_task(site.reset("e1", SLOW))
    await until(lambda: site.did() == ["begin slow"])
    await site.open_gate(SLOW, "fail")
    assert (await playing).text == "slow"
    assert site.did().count("begin slow") == 2
    await until(lambda: site.counts() == (2, 0, 0))
    assert site.manager.stats()["web"].failed == 1


async def test_a_reset_ahead_keeps_its_deadline(site):
    site.close_gate(SLOW)
    (before,) = site.workers()
    site.prepare("e1", SLOW, deadline=0.5)
    # the killed worker takes the sibling along
    await until(lambda: site.counts() == (2, 0, 0) and before not in site.workers())
    assert site.manager.stats()["web"].failed >= 2
    async with site.manager.acquire("web", episode="e1") as lease:
        with pytest.raises(EnvironmentFailure) as caught:
            await lease.reset(episode="e1", task=SLOW, seed=0, deadline=0.5)
    assert (caught.value.phase, caught.value.kind) == ("reset", "timeout")


async def test_no_more_is_prepared_than_stands_idle(site):
    async with site.manager.acquire("web"):
        assert site.prepare("e1", QUICK)
        assert not site.prepare("e2", QUICK)
        site.manager.forget("web", "e1")
        await until(lambda: site.counts() == (1, 1, 0))
        assert site.prepare("e2", QUICK)


async def test_a_manager_that_closes_ends_resets_ahead(site, server):
    site.close_gate(SLOW)
    site.prepare("e1", SLOW)
    site.prepare("e2", SLOW)
    await until(lambda: site.did() == ["begin slow"] * 2)
    await site.manager.close()
    await site.manager.close()
