import dataclasses

import pytest

from mintact_platform.scheduler.flow import Admitted, Credit, NoFlowControl, QuotaNormalised
from mintact_platform.scheduler.simulate import SimulatedDomain, bounds, simulate
from mintact_platform.scheduler.state import Scheduler

FAST = SimulatedDomain(32, 72.0, 0.6, 60)
SLOW = SimulatedDomain(32, 360.0, 0.5, 60)
TWO = {"fast": FAST, "slow": SLOW}
FOUR = {
    name: SimulatedDomain(16, seconds, informative, 30)
    for name, seconds, informative in (
        ("tools", 36.0, 0.6),
        ("web", 72.0, 0.5),
        ("desktop", 216.0, 0.5),
        ("phone", 432.0, 0.4),
    )
}


def run(domains, flow, *, steps=30, train_seconds=150.0, **settings):
    quotas = {name: domain.quota for name, domain in domains.items()}
    scheduler = Scheduler(
        quotas,
        flow=flow(quotas),
        **{"fallback_after": 1e9, "on_stale": "train", "max_staleness": 99, **settings},
    )
    return simulate(domains, scheduler, train_seconds=train_seconds, steps=steps, limit=2e6)


@pytest.mark.parametrize(
    ("domains", "flow", "least", "most"),
    [
        (TWO, NoFlowControl, 0.6, 0.8),
        (TWO, Admitted, 0.6, 0.8),
        (TWO, QuotaNormalised, 0.0, 0.01),
        (TWO, Credit, 0.0, 0.01),
        (FOUR, Admitted, 0.75, 0.95),
        (FOUR, QuotaNormalised, 0.0, 0.01),
        (FOUR, Credit, 0.0, 0.01),
    ],
)
def test_what_is_wasted_depends_on_what_flow_control_counts(domains, flow, least, most):
    result = run(domains, flow)
    assert least <= result.wasted <= most
    assert result.share(next(iter(domains))) == pytest.approx(1 / len(domains))


def test_the_literal_reading_wastes_just_what_no_flow_control_wastes():
    assert run(TWO, Admitted) == run(TWO, NoFlowControl)


@pytest.mark.parametrize("flow", [QuotaNormalised, Credit])
def test_a_starved_domain_does_not_stop_the_run(flow):
    starved = {"fast": FAST, "slow": dataclasses.replace(SLOW, informative=0.0)}
    result = run(starved, flow, steps=20, fallback_after=600.0)
    assert (result.steps, result.relaxed, result.share("fast")) == (20, 20, 1.0)
    assert result.wasted == 0.0


def test_the_trainer_is_busy_when_producers_can_give_a_fifth_more():
    train_seconds = 1.2 * 3600 / bounds(TWO, train_seconds=1.0)["slow"]
    result = run(
        TWO,
        QuotaNormalised,
        train_seconds=train_seconds,
        fallback_after=120.0,
        on_stale="evict",
        max_staleness=2,
    )
    assert result.binding == "trainer"
    assert result.trainer_idle < 0.05
    assert result.wasted < 0.01
    assert result.steps_per_hour > 0.95 * result.bounds["trainer"]


def test_training_while_rolling_out_is_twice_as_fast_as_in_turns():
    train_seconds = 3600 / bounds(TWO, train_seconds=1.0)["slow"]
    both = {
        mode: run(TWO, QuotaNormalised, train_seconds=train_seconds, mode=mode, sync_every=1)
        for mode in ("async", "synchronous")
    }
    assert both["async"].steps_per_hour > 2 * both["synchronous"].steps_per_hour


def test_a_simulation_repeats_with_its_seed():
    assert run(TWO, QuotaNormalised, steps=5) == run(TWO, QuotaNormalised, steps=5)


def test_shared_slots_bound_all_domains_together():
    quotas = {"fast": 32, "slow": 32}
    scheduler = Scheduler(quotas, fallback_after=1e9)
    result = simulate(TWO, scheduler, train_seconds=1.0, steps=20, active=40, push_seconds=5.0)
    assert result.binding == "active"
    assert result.steps_per_hour < 1.15 * result.bounds["active"]


def test_a_result_says_what_binds_and_what_was_lost():
    lines = run(TWO, QuotaNormalised, steps=5).lines()
    assert "bound by slow (9.4)" in lines[0]
    assert "wasted 0.0 % of accepted groups" in lines[1]
    assert [line.split(":")[0] for line in lines[2:]] == ["fast", "slow"]
