"""How fast a run goes: against what its resources could sustain, and against taking turns."""

import pytest

from mintact_platform.scheduler.simulation.result import bounds


@pytest.mark.parametrize("domains", [2, 4])
def test_the_trainer_is_busy_when_producers_can_give_a_fifth_more(assumptions, run, domains):
    limits = bounds(assumptions(domains))
    slowest = min(limit for name, limit in limits.items() if name != "trainer")
    for result in run(
        domains,
        seeds=5,
        steps=60,
        train_seconds=1.2 * 3600 / slowest,
        fallback_after=120.0,
        on_stale="evict",
        max_staleness=2,
    ):
        assert result.binding == "trainer"
        assert result.trainer_idle <= 0.05
        assert result.wasted <= 0.01
        assert result.of_bound >= 0.95
        assert {name: d.share for name, d in result.domains.items()} == pytest.approx(
            dict.fromkeys(result.domains, 1 / domains), abs=0.01
        )


@pytest.mark.parametrize("domains", [2, 4])
def test_where_producers_bind_nearly_all_of_what_they_can_give_is_used(run, domains):
    for result in run(domains, seeds=5, steps=60, train_seconds=100.0):
        assert result.binding in result.domains
        assert result.of_bound >= 0.95


@pytest.mark.parametrize("sigma", [0.6, 1.0])
def test_training_while_rolling_out_is_twice_as_fast_as_in_turns(assumptions, run, sigma):
    limits = bounds(assumptions())
    train_seconds = 3600 / limits["slow"]
    pace = {
        mode: run(seeds=3, sigma=sigma, train_seconds=train_seconds, sync=1, mode=mode)
        for mode in ("async", "synchronous")
    }
    for ours, turns in zip(pace["async"], pace["synchronous"], strict=True):
        assert ours.steps_per_hour >= 2 * turns.steps_per_hour


def test_shared_slots_bound_all_domains_together(run):
    (result,) = run(train_seconds=1.0, steps=20, changes=[("active", 40)])
    assert result.binding == "active"
    assert 0.9 < result.of_bound < 1.15


def test_adaptive_quotas_beat_fixed_ones_when_a_domain_is_mastered(run):
    changes = [("domains.fast.informative", [[0, 0.6], [10, 0.02]])]
    options = {"steps": 50, "train_seconds": 300.0, "changes": changes}
    (fixed,) = run(mixture="fixed", **options)
    (adaptive,) = run(mixture="adaptive", **options)
    assert adaptive.steps_per_hour > 1.5 * fixed.steps_per_hour
    assert adaptive.relaxed == fixed.relaxed == 0
    assert adaptive.domains["fast"].filtered < fixed.domains["fast"].filtered
    assert {sum(step.realised.values()) for step in adaptive.timeline} == {64}
