"""Golden numbers from textbooks and from an exact computation, and invariants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.evaluation.statistics import (
    mcnemar,
    mean_interval,
    mean_of_rates,
    paired,
    rate_difference,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_gives_the_published_numbers(successes, n, low, high):
    interval = wilson(successes, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_no_episodes_say_nothing():
    interval = wilson(0, 0)
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high) == (0, 1)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        ((48, 80), (56, 70), 0.0524, 0.3339),  # Newcombe 1998 II, example (a), method 10
        ((3, 10), (9, 10), 0.1705, 0.8090),  # example (b)
    ],
)
def test_differences_give_the_published_numbers(first, second, low, high):
    interval = rate_difference(first, second)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (8, 1, 0.0390625), (3, 3, 1.0)]
)
def test_mcnemar_is_exact(gained, lost, p):
    assert mcnemar(gained, lost) == pytest.approx(p)


def test_paired_counts_gains_and_losses_and_repeats_itself():
    first = [0, 0, 0, 1, 1, 0, 0, 1]
    second = [1, 1, 1, 1, 0, 1, 0, 1]
    result = paired(first, second)
    assert (result.gained, result.lost) == (4, 1)
    assert result.difference.mean == pytest.approx(3 / 8)
    assert result == paired(first, second)


def test_paired_refuses_different_task_lists():
    with pytest.raises(ValueError, match="3 tasks against 2"):
        paired([0, 1, 1], [0, 1])


def test_mean_interval_of_known_values():
    interval = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert interval == pytest.approx((2.5, 2.5 - 1.2651, 2.5 + 1.2651), abs=1e-4)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_rate_and_stays_in_bounds(counts):
    low_mean_high = wilson(*counts)
    assert 0 <= low_mean_high.low <= low_mean_high.mean <= low_mean_high.high <= 1


@given(st.lists(st.tuples(st.integers(0, 50), st.just(50)), min_size=1, max_size=5))
def test_the_mean_of_domains_is_tighter_than_its_worst_domain(rates):
    joint = mean_of_rates(rates)
    widest = max(wilson(*rate).high - wilson(*rate).low for rate in rates)
    assert 0 <= joint.low <= joint.mean <= joint.high <= 1
    assert joint.high - joint.low <= widest + 1e-9
