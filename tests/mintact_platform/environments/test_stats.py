import math

from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.environments.pools.stats import KEPT, PoolStats, Timings


@given(st.lists(st.floats(0, 1e6), max_size=3 * KEPT), st.floats(0, 1))
def test_quantiles_are_those_of_the_last_few_hundred(values, share):
    some = Timings()
    for value in values:
        some.add(value)
    kept = sorted(values[-KEPT:])
    assert some.count == len(values)
    assert math.isclose(some.total, math.fsum(values), rel_tol=1e-9, abs_tol=1e-6)
    found = some.quantile(share)
    if not kept:
        assert found is None
    else:
        assert found == kept[min(len(kept) - 1, int(share * len(kept)))]


def test_a_pool_keeps_what_was_measured_and_nothing_else():
    stats = PoolStats(failed=2, acquired=4, found=1)
    stats.reset.add(3.0)
    assert stats.figures() == {"lost": 2.0, "ahead": 0.25, "reset_p50": 3.0, "reset_p95": 3.0}
    assert "p50 3 s" in repr(stats.reset)
