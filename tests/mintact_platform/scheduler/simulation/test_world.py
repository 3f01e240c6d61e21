"""What may happen to a simulated run, and that nothing is lost by it."""

import pytest

from mintact_platform.scheduler.simulation.journal import MemoryJournal
from mintact_platform.scheduler.simulation.simulate import builder, simulate
from mintact_platform.scheduler.simulation.world import World

EVENTFUL = [
    ("kills", [2000.0, 2100.0, 9000.0]),
    ("restart_seconds", 120.0),
    ("pauses", [[3000.0, 3600.0]]),
    ("domains.fast.outages", [[4000.0, 5000.0]]),
    ("domains.slow.starved", [[6000.0, 7000.0]]),
    ("domains.slow.failures", 0.1),
    ("trainer.sigma", 0.3),
    ("trainer.push_seconds", 20.0),
    ("trainer.evaluation_every", 5),
    ("trainer.evaluation_seconds", 60.0),
]


@pytest.mark.parametrize("mixture", ["fixed", "adaptive"])
@pytest.mark.parametrize("mode", ["async", "synchronous"])
def test_every_group_is_accounted_for_after_every_event(assumptions, registry, mode, mixture):
    one = assumptions(
        changes=EVENTFUL, mode=mode, mixture=mixture, fallback_after=300.0, on_stale="evict",
        max_staleness=2, steps=25,
    )  # fmt: skip
    journal = MemoryJournal(one.domains)

    def check(world):
        status = world.scheduler.status(world.now)
        for name, row in journal.ledger().items():
            assert row.balanced
            # a dead scheduler knows less than the ledger until it is replaced
            if world.running:
                assert status[name]["queued"] + status[name]["stale"] >= row.queued
                assert status[name]["in_flight"] == row.open
        assert sum(world.scheduler.quotas.values()) == one.batch_groups

    world = World(one, builder(one, registry), journal, seed=3, watch=check)
    assert world.run()
    rows = journal.ledger()
    assert world.steps_done == 25
    assert sum(row.trained for row in rows.values()) == 25 * 64
    assert rows["slow"].dropped > 5


def test_a_killed_run_trains_what_it_would_have_and_a_little_later(assumptions, registry):
    plain = simulate(assumptions(), registry)
    killed = simulate(assumptions(changes=[("kills", [2500.0])]), registry)
    assert killed.steps == plain.steps
    assert killed.down >= 60.0
    assert plain.seconds < killed.seconds < plain.seconds + killed.down + 2000.0


def test_a_paused_run_ends_so_much_later(assumptions, registry):
    plain = simulate(assumptions(steps=10), registry)
    paused = simulate(assumptions(steps=10, changes=[("pauses", [[0.0, 5000.0]])]), registry)
    assert paused.seconds == pytest.approx(plain.seconds + 5000.0)


def test_during_an_outage_the_others_go_on(assumptions, registry):
    changes = [("domains.slow.outages", [[3000.0, 40000.0]]), ("hours", 10.0)]
    result = simulate(assumptions(steps=200, changes=changes, fallback_after=120.0), registry)
    assert result.steps > 60
    assert result.domains["fast"].share > 0.8


def test_a_simulation_repeats_with_its_seed(assumptions, registry):
    one = assumptions(steps=5)
    assert simulate(one, registry, seed=1) == simulate(one, registry, seed=1)
    assert simulate(one, registry, seed=1) != simulate(one, registry, seed=2)


def test_longer_groups_cost_the_trainer_time(assumptions, registry):
    changes = [("trainer.seconds_per_token", 0.01), ("domains.slow.tokens", 1000.0)]
    result = simulate(assumptions(steps=5, train_seconds=0.0, changes=changes), registry)
    assert result.bounds["trainer"] == pytest.approx(3600 / (32 * 1000 * 0.01))


def test_the_journal_refuses_what_the_ledger_refuses(assumptions):
    journal = MemoryJournal(["web"])
    journal.opened("a", "web", 0.0)
    with pytest.raises(ValueError, match="already there"):
        journal.opened("a", "web", 0.0)
    journal.closed("a", "filtered", None, 1.0, 0.0)
    with pytest.raises(KeyError):
        journal.moved(["a"], "evicted")
    with pytest.raises(ValueError, match="did not begin"):
        journal.step_done(1)
