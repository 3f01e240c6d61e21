"""Adaptive quotas: bounds, sum, monotone, and back to the run file's when all teach alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.adaptive import AdaptiveMixture, share_out
from mintact_platform.scheduler.quota import DomainStatistics, ObservingMixture

QUOTAS = st.dictionaries(
    st.sampled_from(["web", "tools", "phone", "desktop"]), st.integers(0, 40), min_size=1
).filter(lambda quotas: sum(quotas.values()) > 0)


@st.composite
def statistics(draw, domains):
    seen = {}
    for domain in domains:
        judged = draw(st.integers(0, 60))
        informative = draw(st.integers(0, judged))
        seen[domain] = DomainStatistics(judged, informative, draw(st.floats(0, 1)) * judged)
    return seen


def told(mixture, *history):
    for step, seen in enumerate(history, 1):
        mixture.observe(step, seen)
    return mixture.quotas(len(history) + 1)


@given(QUOTAS, st.data())
def test_quotas_sum_to_the_batch_and_stay_within_their_bounds(quotas, data):
    minimum, maximum = data.draw(st.floats(0, 1)), data.draw(st.floats(1, 4))
    mixture = AdaptiveMixture(quotas, minimum=minimum, maximum=maximum)
    for step in range(1, data.draw(st.integers(1, 6))):
        mixture.observe(step, data.draw(statistics(quotas)))
        chosen = mixture.quotas(step + 1)
        assert sum(chosen.values()) == sum(quotas.values())
        for domain, quota in quotas.items():
            if quota:
                assert max(1, int(minimum * quota)) <= chosen[domain]
                assert chosen[domain] <= max(quota, int(maximum * quota))
            else:
                assert chosen[domain] == 0


@given(QUOTAS, st.data())
def test_a_domain_that_gives_more_never_gets_less(quotas, data):
    history = [data.draw(statistics(quotas)) for _ in range(data.draw(st.integers(1, 4)))]
    domain = data.draw(st.sampled_from(sorted(quotas)))
    last = history[-1][domain]
    more = data.draw(st.integers(last.informative, last.judged))
    better = DomainStatistics(last.judged, more, last.reward)
    before = told(AdaptiveMixture(quotas), *history)
    after = told(AdaptiveMixture(quotas), *history[:-1], {**history[-1], domain: better})
    assert after[domain] >= before[domain]
    assert all(after[other] <= before[other] for other in quotas if other != domain)


@given(QUOTAS, st.data())
def test_it_recovers_when_all_domains_teach_alike(quotas, data):
    mixture = AdaptiveMixture(quotas)
    assert mixture.quotas(1) == quotas
    for step in range(1, 8):
        mixture.observe(step, data.draw(statistics(quotas)))
    for step in range(8, 250):
        mixture.observe(step, {domain: DomainStatistics(20, 10, 10.0) for domain in quotas})
    again = mixture.quotas(250)
    assert all(abs(again[domain] - quota) <= 1 for domain, quota in quotas.items())


@given(QUOTAS, st.data())
@settings(max_examples=30)
def test_a_fresh_one_told_the_same_again_says_the_same(quotas, data):
    history = [data.draw(statistics(quotas)) for _ in range(5)]
    assert told(AdaptiveMixture(quotas), *history) == told(AdaptiveMixture(quotas), *history)


def test_learning_progress_counts_beside_the_informative_rate():
    quotas = {"moving": 16, "still": 16}
    history = [
        {
            "moving": DomainStatistics(20, 10, min(18.0, 2.0 + step)),
            "still": DomainStatistics(20, 10, 10.0),
        }
        for step in range(12)
    ]
    assert told(AdaptiveMixture(quotas), *history)["moving"] > 16
    assert told(AdaptiveMixture(quotas, progress=0.0), *history) == quotas


def test_a_mastered_domain_falls_to_its_least_and_is_heard_again():
    mixture = AdaptiveMixture({"web": 16, "phone": 16})
    for step in range(60):
        seen = {"web": DomainStatistics(200, 0, 200.0), "phone": DomainStatistics(30, 16, 15.0)}
        mixture.observe(step, seen)
    assert mixture.quotas(61) == {"web": 4, "phone": 28}
    for step in range(61, 90):
        seen = {"web": DomainStatistics(8, 4, 4.0), "phone": DomainStatistics(50, 26, 25.0)}
        mixture.observe(step, seen)
    assert mixture.quotas(91)["web"] > 10


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), min_size=1))
def test_weights_that_fit_exactly_get_just_themselves(shares):
    total = sum(shares.values())
    weights = {d: 0.37 * n for d, n in shares.items()}
    assert share_out(total, weights, dict.fromkeys(shares, 0), dict.fromkeys(shares, 99)) == shares


@pytest.mark.parametrize("params", [{"minimum": 2.0}, {"maximum": 0.5}, {"memory": 0.0}])
def test_bounds_that_leave_no_room_are_refused(params):
    with pytest.raises(ConfigurationError, match="minimum lies in"):
        AdaptiveMixture({"web": 4}, **params)


def test_it_is_registered_and_observes():
    mixture = Registry.discover().get("mixtures", "adaptive")({"web": 4})
    assert isinstance(mixture, ObservingMixture)
