"""Millions of virtual events under every mishap at once: nothing is lost, nobody waits for ever."""

import random

import pytest

from mintact_platform.scheduler.simulation.assumptions import parse
from mintact_platform.scheduler.simulation.journal import MemoryJournal
from mintact_platform.scheduler.simulation.simulate import builder
from mintact_platform.scheduler.simulation.world import World


def windows(draw, span, most):
    begins = sorted(draw.uniform(0, span) for _ in range(draw.randint(0, most)))
    return [[begin, begin + draw.uniform(60, span / 20)] for begin in begins]


def drawn(seed):
    """Assumptions at random: durations over two decades, failures, droughts, outages, kills."""
    draw, span = random.Random(seed), 40_000.0
    names = ("web", "tools", "phone", "desktop")[: draw.randint(1, 4)]
    schedule = {
        "flow_control": draw.choice(["quota_normalised", "credit", "none", "admitted"]),
        "mixture": draw.choice(["fixed", "adaptive"]),
        "eviction": draw.choice(["surplus", "oldest"]),
        "capacity_batches": draw.randint(1, 3),
        "fallback_after": draw.choice([30.0, 120.0, 900.0]),
        "max_staleness": draw.randint(0, 3),
        "on_stale": draw.choice(["evict", "train"]),
        "mode": draw.choice(["async", "async", "async", "synchronous"]),
        "fill": draw.choice(["quotas", "quotas", "quotas", "fifo"]),
    }
    domains = {
        name: {
            "quota": draw.randint(1, 16),
            "seconds": 10 ** draw.uniform(0.7, 2.5),
            "sigma": draw.uniform(0, 1.2),
            "informative": draw.uniform(0.1, 1.0),
            "failures": draw.choice([0.0, 0.0, 0.2]),
            "producers": draw.randint(2, 60),
            "starved": windows(draw, span, 2),
            "outages": windows(draw, span, 2),
        }
        for name in names
    }
    return parse(
        {
            "steps": 100_000,
            "hours": span / 3600,
            "trainer": {
                "seconds": 10 ** draw.uniform(0, 2.3),
                "sigma": draw.uniform(0, 0.5),
                "push_seconds": draw.uniform(0, 20),
            },
            "sync": {"every": draw.randint(1, 5)},
            "domains": domains,
            "schedule": schedule,
            "pauses": windows(draw, span, 3),
            "kills": [draw.uniform(0, span) for _ in range(draw.randint(0, 5))],
        }
    )


def survive(seed, registry):
    """Run one with a check after every event; its events and steps."""
    one = drawn(seed)
    journal = MemoryJournal(one.domains)
    size, evicts = one.batch_groups, one.schedule.on_stale == "evict"

    def check(world):
        scheduler = world.scheduler
        assert len(scheduler.queue) <= scheduler.queue.capacity
        assert sum(scheduler.quotas.values()) == size
        queued = sum(counts["queued"] for counts in journal.counts.values())
        assert len(scheduler.queue) <= queued
        for name, counts in journal.counts.items():
            assert journal.produced[name] == counts.total()
        if world.totals.steps:
            last = world.totals.steps[-1]
            assert one.schedule.mode == "synchronous" or sum(last.realised.values()) == size

    world = World(one, builder(one, registry), journal, seed=seed, watch=check)
    assert world.run(patience=40_000.0), (seed, one.schedule, world.now)
    if evicts:
        assert max(world.totals.versions, default=0) <= one.schedule.max_staleness
    trained = sum(row.trained for row in journal.ledger().values())
    batched = sum(row.batched for row in journal.ledger().values())
    assert trained + batched == sum(sum(s.realised.values()) for s in world.totals.steps)
    return world.totals.events, world.steps_done


def test_a_few_runs_survive_everything(registry):
    for seed in range(4):
        events, steps = survive(seed, registry)
        assert events > 100
        assert steps > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_millions_of_events(registry, capsys):
    events = runs = steps = 0
    while events < 3_000_000:
        more, done = survive(1000 + runs, registry)
        events, steps, runs = events + more, steps + done, runs + 1
    with capsys.disabled():
        print(f"\n{events} events, {steps} trainer steps, {runs} runs")
