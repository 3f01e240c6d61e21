import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.quota import FixedMixture, apportion


def test_a_fixed_mixture_is_the_same_at_every_step():
    mixture = FixedMixture({"web": 2, "tools": 0})
    assert mixture.quotas(1) == mixture.quotas(900) == {"web": 2, "tools": 0}


@pytest.mark.parametrize("quotas", [{}, {"web": 0}, {"web": -1, "tools": 4}])
def test_quotas_that_make_no_batch_are_refused(quotas):
    with pytest.raises(ConfigurationError, match="quotas must not be negative"):
        FixedMixture(quotas)


@given(
    st.integers(0, 500),
    st.dictionaries(st.text(max_size=3), st.integers(0, 50), min_size=1, max_size=6),
)
def test_shares_sum_to_the_total_and_stay_within_one_of_exact(total, weights):
    shares, whole = apportion(total, weights), sum(weights.values())
    if whole == 0:
        assert set(shares.values()) == {0}
        return
    assert sum(shares.values()) == total
    assert all(abs(shares[d] - total * w / whole) < 1 for d, w in weights.items())
