"""A pool under storms: whatever is cancelled, broken or prepared, no lease is lost or shared."""

from __future__ import annotations

import asyncio
import random

import pytest

from mintact_platform.environments.pools.pool import FRESH, Pool, PoolSpec
from mintact_platform.environments.pools.pooled import STRIKES
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, LeaseExpired
from mintact_platform.records.task import Task

TASKS = [Task(f"t{number}", "goal", "web") for number in range(9)]


class Home:
    """A server that answers, or does not."""

    def __init__(self):
        self.leases, self.suspect, self.trusted = {}, False, True
        self.verified = 0

    async def verify(self):
        self.verified += 1
        await asyncio.sleep(0)
        self.suspect = False


class StandIn:
    """A lease whose resets end when and how the test says."""

    def __init__(self, home=None, rng=None):
        self.home, self.rng = home or Home(), rng
        self.failure = None
        self.unfinished = self.proved = False
        self.resets, self.last_success, self.struck = [], None, {}
        self.ready = None
        self.gate = asyncio.Event()
        self.users = 0

    @property
    def healthy(self):
        return self.failure is None and not self.unfinished

    @property
    def mendable(self):
        return self.failure is not None and not isinstance(self.failure, LeaseExpired)

    async def reset_ahead(self, episode, task, seed, deadline):
        assert not self.unfinished, "a reset while another call runs"
        self.unfinished = True
        self.resets.append(episode)
        if self.rng is None:
            await self.gate.wait()
        else:
            for _ in range(self.rng.randrange(4)):
                await asyncio.sleep(0)
            if self.rng.random() < 0.2:
                self.failure = EnvironmentFailure("no reset", phase="reset")
                raise self.failure
        self.unfinished, self.ready = False, episode

    async def mend(self, deadline):
        await self.reset_ahead("mend", TASKS[0], 0, deadline)
        self.failure = self.ready = None

    def forget_ahead(self):
        self.ready = None

    def clear(self):
        self.struck.clear()

    def strike(self):
        self.struck.setdefault(TASKS[len(self.struck)].id, len(self.struck))


def pool_of(*leases):
    pool = Pool("web", PoolSpec("e", instances=len(leases)))
    for lease in leases:
        pool.add(lease)
    return pool


def counts(pool):
    stats = pool.count()
    return stats.idle, stats.busy, stats.starting


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_waiting_rollouts_get_leases_in_the_order_they_came():
    first = StandIn()
    pool = pool_of(first)
    assert await pool.take() is first
    order = []

    async def wait(number):
        lease = await pool.take()
        order.append(number)
        await asyncio.sleep(0)
        pool.give_back(lease, 1)

    waiting = [asyncio.create_task(wait(number)) for number in range(5)]
    await turns()
    waiting[2].cancel()
    pool.give_back(first, 1)
    await asyncio.wait(waiting)
    assert order == [0, 1, 3, 4]
    assert counts(pool) == (1, 0, 0)


async def test_a_rollout_cancelled_as_its_turn_comes_passes_it_on():
    lease = StandIn()
    pool = pool_of(lease)
    await pool.take()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await turns()
    pool.give_back(lease, 1)
    first.cancel()
    assert await second is lease
    assert first.cancelled()


async def test_a_prepared_episode_is_reset_once_and_found_ready():
    lease, other = StandIn(), StandIn()
    pool = pool_of(lease, other)
    assert pool.prepare("e1", TASKS[0], 0, 1)
    assert pool.prepare("e1", TASKS[0], 0, 1), "asking again changes nothing"
    lease.gate.set()
    await turns()
    assert counts(pool) == (2, 0, 0)
    assert await pool.take() is other, "an idle lease is taken before one that waits for an episode"
    assert await pool.take("e1") is lease
    assert (lease.ready, lease.resets, pool.stats.found) == ("e1", ["e1"], 1)
    assert counts(pool) == (0, 2, 0)


async def test_a_rollout_waits_for_its_own_reset_that_is_still_running():
    lease = StandIn()
    pool = pool_of(lease)
    pool.prepare("e1", TASKS[0], 0, 1)
    taking = asyncio.create_task(pool.take("e1"))
    stranger = asyncio.create_task(pool.take("e2"))
    await turns()
    assert not taking.done()
    lease.gate.set()
    assert await taking is lease
    await turns()
    assert not stranger.done(), "what one rollout claimed is not given to another"
    pool.give_back(lease, 1)
    assert await stranger is lease
    assert lease.ready is None


async def test_a_lease_reset_ahead_serves_whoever_would_wait_else():
    lease = StandIn()
    pool = pool_of(lease)
    pool.prepare("e1", TASKS[0], 0, 1)
    waiting = asyncio.create_task(pool.take("e2"))
    await turns()
    lease.gate.set()
    assert await waiting is lease
    assert lease.ready is None
    assert not pool.prepare("e3", TASKS[0], 0, 1), "nothing is idle"
    late = asyncio.create_task(pool.take("e1"))
    await turns()
    pool.give_back(lease, 1)
    assert await late is lease, "an episode whose preparation was taken away starts afresh"


async def test_nothing_is_prepared_while_a_rollout_waits():
    lease = StandIn()
    lease.home.trusted = False
    pool = pool_of(lease)
    waiting = asyncio.create_task(pool.take())
    await turns()
    assert not pool.prepare("e1", TASKS[0], 0, 1)
    lease.home.trusted = True
    pool.wake_all()
    assert await waiting is lease


async def test_a_reset_ahead_that_fails_costs_the_instance_and_not_the_episode():
    broken, other = StandIn(), StandIn()
    pool = pool_of(broken, other)
    event = pool.leases[broken]
    broken.rng = random.Random(0)
    broken.rng.random = lambda: 0.0
    pool.prepare("e1", TASKS[0], 0, 1)
    assert await pool.take("e1") is other
    assert event.is_set()
    assert pool.stats.found == 0
    assert counts(pool) == (0, 1, 1)


async def test_a_cancelled_rollout_leaves_its_prepared_lease_to_others():
    lease = StandIn()
    pool = pool_of(lease)
    pool.prepare("e1", TASKS[0], 0, 1)
    taking = asyncio.create_task(pool.take("e1"))
    await turns()
    taking.cancel()
    await asyncio.wait([taking])
    lease.gate.set()
    await turns()
    assert counts(pool) == (1, 0, 0)
    assert lease.ready is None
    assert await pool.take("e1") is lease


async def test_a_forgotten_episode_frees_its_lease_once_the_reset_is_done():
    lease = StandIn()
    pool = pool_of(lease)
    pool.prepare("e1", TASKS[0], 0, 1)
    await turns()
    pool.forget("e1")
    pool.forget("never prepared")
    assert counts(pool) == (0, 0, 1)
    lease.gate.set()
    await turns()
    assert counts(pool) == (1, 0, 0)
    assert lease.ready is None


async def test_an_observation_that_waited_too_long_is_not_used(monkeypatch):
    lease = StandIn()
    pool = pool_of(lease)
    pool.prepare("e1", TASKS[0], 0, 1)
    lease.gate.set()
    await turns()
    pool.ahead["e1"].begun -= FRESH + 1
    assert await pool.take("e1") is lease
    assert (lease.ready, pool.stats.found) == (None, 0)
    pool.give_back(lease, 1)
    pool.prepare("e2", TASKS[0], 0, 1)
    await turns()
    pool.ahead["e2"].begun -= FRESH + 1
    assert pool.prepare("e3", TASKS[0], 0, 1), "what nobody came for makes room"


async def test_a_lease_lost_while_its_reset_runs_ends_the_reset_and_wakes_its_rollout():
    lease, other = StandIn(), StandIn()
    pool = pool_of(lease, other)
    pool.prepare("e1", TASKS[0], 0, 1)
    taking = asyncio.create_task(pool.take("e1"))
    await turns()
    pool.lost(lease)
    assert await taking is other
    lease.gate.set()
    await turns()
    assert lease.unfinished, "the reset was ended, not left to run on"


async def test_a_lease_lost_before_its_reset_ran_at_all_wakes_its_rollout():
    lease, other = StandIn(), StandIn()
    pool = pool_of(lease, other)

    async def lose():
        pool.lost(lease)

    losing = asyncio.create_task(lose())
    pool.prepare("e1", TASKS[0], 0, 1)
    assert await pool.take("e1") is other
    await losing
    assert (lease.resets, counts(pool)) == ([], (0, 1, 1))


async def test_an_environment_that_raised_is_mended_before_it_is_handed_out():
    lease = StandIn()
    pool = pool_of(lease)
    assert await pool.take() is lease
    lease.failure = EnvironmentFailure("fell off", phase="step", kind="ValueError")
    pool.give_back(lease, 1)
    assert counts(pool) == (0, 0, 1)
    taking = asyncio.create_task(pool.take())
    await turns()
    assert not taking.done()
    lease.gate.set()
    assert await taking is lease
    assert (lease.resets, pool.stats.mended) == (["mend"], 1)


@pytest.mark.parametrize("siblings", ["none", "fail", "succeed"])
async def test_an_instance_that_fails_while_its_siblings_succeed_is_replaced(siblings):
    lease, other = StandIn(), StandIn()
    pool = pool_of(lease) if siblings == "none" else pool_of(lease, other)
    event = pool.leases[lease]
    other.last_success = 99.0 if siblings == "succeed" else None
    lease.gate.set()
    for number in range(STRIKES):
        assert not event.is_set(), number
        pool.idle.remove(lease)
        pool.busy.add(lease)
        lease.failure = EnvironmentFailure("fell off", phase="step", kind="ValueError")
        pool.give_back(lease, 1)
        await turns()
    assert event.is_set() == (siblings != "fail")
    assert lease.home.suspect == (siblings != "fail")


async def test_leases_of_a_silent_server_are_handed_out_only_after_it_answered():
    silent, fine = StandIn(), StandIn()
    silent.home.trusted = False
    pool = pool_of(silent, fine)
    assert await pool.take() is fine
    waiting = asyncio.create_task(pool.take())
    await turns()
    assert not waiting.done()
    silent.home.trusted = True
    pool.wake_all()
    assert await waiting is silent


async def test_a_server_where_a_lease_broke_is_asked_first_and_once():
    home = Home()
    leases = [StandIn(home), StandIn(home)]
    pool = pool_of(*leases)
    home.suspect = True
    assert {await pool.take(), await pool.take()} == set(leases)
    assert home.verified == 1
    pool.lost(leases[0])
    assert list(home.leases) == [leases[1]]


async def test_who_waits_is_told_when_no_instance_will_ever_start():
    pool = pool_of()
    waiting = asyncio.create_task(pool.take())
    await turns()
    pool.hopeless = ConfigurationError("refused")
    pool.wake_all()
    with pytest.raises(ConfigurationError, match="refused"):
        await waiting


@pytest.mark.parametrize("seed", range(60))
async def test_no_storm_loses_or_shares_a_lease(seed):
    """Rollouts are cancelled, break and prepare; seats replace; servers fall silent."""
    rng = random.Random(seed)
    homes = [Home(), Home()]
    pool = Pool("web", PoolSpec("e", instances=rng.randrange(1, 6)))
    live = {}  # and no set: the same is drawn from it each time

    async def seat():
        while True:
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            lease = StandIn(rng.choice(homes), rng)
            live[lease] = None
            gone = pool.add(lease)
            await gone.wait()
            live.pop(lease)

    async def rollout(number):
        if rng.random() < 0.6:
            pool.prepare(f"e{number}", TASKS[0], 0, 1)
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        lease = await pool.take(f"e{number}")
        assert lease.healthy
        assert lease.users == 0, "two rollouts share a lease"
        assert lease.ready in (None, f"e{number}"), "another episode's observation"
        lease.users += 1
        try:
            lease.unfinished = True
            await asyncio.sleep(0)
            lease.unfinished = False
            if rng.random() < 0.2:
                kind = rng.choice((EnvironmentFailure, LeaseExpired))
                lease.failure = kind("fell off", phase="step", kind="ValueError")
        finally:
            lease.users -= 1
            pool.give_back(lease, 1)

    async def trouble():
        while True:
            await asyncio.sleep(0)
            if live and rng.random() < 0.1:
                pool.lost(rng.choice(list(live)))
            home = rng.choice(homes)
            home.suspect = home.suspect or rng.random() < 0.1
            if seed % 2 and rng.random() < 0.2:
                home.trusted = not home.trusted
                if home.trusted:
                    pool.wake_all()

    seats = [asyncio.create_task(seat()) for _ in range(pool.spec.instances)]
    troubling = asyncio.create_task(trouble())
    rollouts = [asyncio.create_task(rollout(number)) for number in range(80)]
    for _ in range(20_000):
        if all(one.done() for one in rollouts):
            break
        await asyncio.sleep(0)
        if rng.random() < 0.05:
            rng.choice(rollouts).cancel()
        stats = pool.count()
        assert min(stats.idle, stats.busy, stats.starting) >= 0
    troubling.cancel()
    for one in rollouts:
        if not one.cancelled():
            one.result()
    for home in homes:
        home.trusted = True
    for episode in list(pool.ahead):
        pool.forget(episode)
    await turns(50)
    assert counts(pool) == (pool.spec.instances, 0, 0)
    assert not pool._waiters
    assert set(pool.idle) == set(live) == set(pool.leases)
    for seat_ in seats:
        seat_.cancel()
    await pool.close()
