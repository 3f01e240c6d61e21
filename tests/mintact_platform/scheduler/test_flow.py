from dataclasses import replace

import pytest

from mintact_platform.scheduler.flow import (
    Admitted,
    Credit,
    FlowState,
    NoFlowControl,
    QuotaNormalised,
)

QUOTAS = {"fast": 4, "slow": 2}


@pytest.fixture
def state():
    zero = {"fast": 0, "slow": 0}
    return FlowState(
        quotas={"fast": 4.0, "slow": 2.0},
        accepted=zero,
        batched=zero,
        queued=zero,
        in_flight=zero,
        live={"fast", "slow"},
        capacity_batches=2,
    )


def test_a_domain_pauses_one_round_ahead_of_the_slowest(state):
    flow = QuotaNormalised(QUOTAS)
    ahead = replace(state, queued={"fast": 4, "slow": 0})
    assert not flow.may_start("fast", ahead)
    assert flow.may_start("slow", ahead)
    assert flow.may_start("fast", replace(state, queued={"fast": 4, "slow": 1}))
    assert not QuotaNormalised(QUOTAS, delta=0.5).may_start(
        "fast", replace(state, queued={"fast": 2, "slow": 0})
    )


def test_nobody_waits_for_a_domain_that_is_not_live(state):
    alone = replace(state, queued={"fast": 7, "slow": 0}, live={"fast"})
    assert QuotaNormalised(QUOTAS).may_start("fast", alone)
    assert not QuotaNormalised(QUOTAS).may_start("fast", replace(alone, live={"fast", "slow"}))


def test_with_a_round_queued_all_that_is_begun_must_fit_the_queue(state):
    flow = QuotaNormalised(QUOTAS)
    level = replace(state, queued={"fast": 4, "slow": 2})
    assert flow.may_start("fast", replace(level, in_flight={"fast": 3, "slow": 0}))
    assert not flow.may_start("fast", replace(level, in_flight={"fast": 4, "slow": 0}))
    starved = replace(state, in_flight={"fast": 400, "slow": 0})
    assert flow.may_start("fast", starved)


def test_credit_is_what_is_accepted_and_not_yet_in_a_batch(state):
    flow = Credit(QUOTAS)
    assert flow.may_start("slow", replace(state, queued={"fast": 0, "slow": 1}))
    assert not flow.may_start("slow", replace(state, queued={"fast": 0, "slow": 2}))


def test_the_literal_reading_looks_at_batches_and_so_never_pauses(state):
    flow = Admitted(QUOTAS)
    full = replace(state, queued={"fast": 99, "slow": 0}, batched={"fast": 40, "slow": 20})
    assert flow.may_start("fast", full)
    assert not flow.may_start("fast", replace(full, batched={"fast": 44, "slow": 20}))


def test_without_flow_control_everyone_starts(state):
    assert NoFlowControl(QUOTAS).may_start("fast", replace(state, queued={"fast": 99, "slow": 0}))
