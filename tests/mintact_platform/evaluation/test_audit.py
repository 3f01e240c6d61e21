"""Judges against a reference: golden numbers by other formulas, and what always holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.evaluation.audit import (
    ALL,
    SAID,
    Compared,
    Confusion,
    audit,
    confusion,
    disagreements,
    kappa,
)

said = st.sampled_from(SAID)
truths = st.sampled_from(("success", "failure"))
compared = st.lists(
    st.builds(
        Compared,
        id=st.uuids().map(str),
        domain=st.sampled_from(("mobile", "web", "tools")),
        truth=truths,
        said=said,
        seconds=st.floats(0, 10),
        cost=st.none() | st.floats(0, 10),
    )
)


def pairs(*counts):
    """`counts` by truth and word, as trajectories."""
    return [
        Compared(f"{truth}-{word}-{n}", "web", truth, word)
        for truth, word, count in counts
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((20, 5, 10, 15), 0.4),  # https://en.wikipedia.org/wiki/Cohen's_kappa, simple example
        ((45, 15, 25, 15), 0.1304),  # same percentages agreed, different κ
        ((25, 35, 5, 35), 0.2593),
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((25, 25, 25, 25), 0.0),
    ],
)
def test_kappa_gives_the_published_numbers(table, expected):
    assert kappa(*table) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("table", [(0, 0, 0, 0), (7, 0, 0, 0), (0, 0, 0, 7)])
def test_kappa_is_undefined_where_only_one_value_was_ever_given(table):
    assert math.isnan(kappa(*table))


counts = st.integers(0, 200)


@given(counts, counts, counts, counts)
def test_kappa_agrees_with_the_closed_form_and_is_symmetric(a, b, c, d):
    value = kappa(a, b, c, d)
    chance = (a + b) * (b + d) + (a + c) * (c + d)
    if chance == 0:
        assert math.isnan(value)
        return
    assert value == pytest.approx(2 * (a * d - b * c) / chance, abs=1e-9)
    assert value == pytest.approx(kappa(a, c, b, d), abs=1e-9)
    assert value == pytest.approx(kappa(d, c, b, a), abs=1e-9)
    assert -1 - 1e-9 <= value <= 1 + 1e-9


def test_every_number_of_a_known_table():
    found = confusion(
        pairs(
            ("success", "success", 40), ("success", "failure", 8), ("success", "abstain", 2),
            ("failure", "success", 3), ("failure", "failure", 30), ("failure", "failed", 4),
            ("failure", "environment_failure", 1),
        )
    )  # fmt: skip
    assert found == Confusion((40, 8, 2, 0, 0), (3, 30, 0, 1, 4))
    assert (found.decided, found.total, found.right) == (81, 88, 70)
    assert (found.false_successes, found.false_failures) == (3, 8)
    # Wilson's interval as the roots of (p - x)² n = z² x (1 - x)
    for interval, k, n in (
        (found.agreement, 70, 81),
        (found.false_success_rate, 3, 33),
        (found.false_failure_rate, 8, 48),
        (found.precision, 40, 43),
        (found.coverage, 81, 88),
    ):
        assert interval.mean == k / n
        z = 1.959963984540054
        for x in (interval.low, interval.high):
            assert n * (k / n - x) ** 2 == pytest.approx(z * z * x * (1 - x), rel=1e-6)
    assert found.kappa == pytest.approx(2 * (40 * 30 - 8 * 3) / (48 * 38 + 43 * 33))


def test_the_mistakes_are_named_by_what_the_judge_said():
    poison = confusion(pairs(("failure", "success", 1)))
    assert (poison.false_successes, poison.false_failures) == (1, 0)
    waste = confusion(pairs(("success", "failure", 1)))
    assert (waste.false_successes, waste.false_failures) == (0, 1)
    silent = confusion(pairs(("failure", "abstain", 1), ("success", "failed", 1)))
    assert (silent.false_successes, silent.false_failures, silent.decided) == (0, 0, 0)
    assert math.isnan(silent.agreement.mean)


@given(compared)
def test_domains_add_up_to_the_whole(trajectories):
    *domains, whole = audit(trajectories)
    assert whole.domain == ALL
    assert sum((row.confusion for row in domains), Confusion()) == whole.confusion
    assert whole.confusion.total == len(trajectories)
    assert sum(row.seconds for row in domains) == pytest.approx(whole.seconds)
    known = [row.cost for row in domains if row.cost is not None]
    assert (whole.cost is None) == (not known)
    assert sum(known) == pytest.approx(whole.cost or 0.0)
    assert [row.domain for row in domains] == sorted({one.domain for one in trajectories})


@given(compared)
def test_rates_lie_in_their_intervals_and_complete_each_other(trajectories):
    found = confusion(trajectories)
    rates = (found.agreement, found.false_success_rate, found.false_failure_rate)
    for rate in (*rates, found.precision, found.coverage):
        assert 0 <= rate.low <= rate.high <= 1
        assert math.isnan(rate.mean) or rate.low <= rate.mean <= rate.high
    mistakes = found.false_successes + found.false_failures
    assert mistakes + found.right == found.decided
    if found.decided:
        assert found.agreement.mean == pytest.approx(1 - mistakes / found.decided)
    if sum(found.failure[:2]):
        specificity = found.failure[1] / sum(found.failure[:2])
        assert found.false_success_rate.mean + specificity == pytest.approx(1)


@given(compared)
def test_judge_and_reference_may_change_places(trajectories):
    decided = [one for one in trajectories if one.decided]
    turned = [one._replace(truth=one.said, said=one.truth) for one in decided]
    there, back = confusion(decided), confusion(turned)
    assert there.agreement == back.agreement
    assert there.kappa == pytest.approx(back.kappa, nan_ok=True)
    assert there.false_successes == back.false_failures


@given(st.dictionaries(st.sampled_from("abc"), compared, max_size=3))
def test_disagreements_are_the_mistakes_and_false_successes_come_first(by_judge):
    found = disagreements(by_judge)
    wrong = {one.id for judged in by_judge.values() for one in judged if one.disagrees}
    assert {one.id for one in found} == wrong
    order = [one.false_success for one in found]
    assert order == sorted(order, reverse=True)


def test_a_disagreement_tells_what_every_judge_said():
    strict = [
        Compared("t1", "web", "failure", "failure"),
        Compared("t2", "web", "failure", "abstain"),
    ]
    lenient = [
        Compared("t1", "web", "failure", "success"),
        Compared("t3", "web", "success", "failed"),
    ]
    (found,) = disagreements({"strict": strict, "lenient": lenient})
    assert (found.id, found.said) == ("t1", {"strict": "failure", "lenient": "success"})
    assert found.false_success
