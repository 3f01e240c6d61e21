from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.scheduler.admission import is_stale, may_start


def under_way_at_most(*, quota, max_staleness, sync_every, steps_since_push):
    count = 0
    while may_start(
        in_flight=count // 2,
        queued=count - count // 2,
        quota=quota,
        max_staleness=max_staleness,
        sync_every=sync_every,
        steps_since_push=steps_since_push,
    ):
        count += 1
    return count


@given(st.integers(1, 20), st.integers(0, 4), st.integers(1, 8), st.data())
def test_as_many_groups_start_as_batches_remain_for_their_version(quota, eta, every, data):
    since = data.draw(st.integers(0, 2 * (eta + 1) * every))
    most = under_way_at_most(
        quota=quota, max_staleness=eta, sync_every=every, steps_since_push=since
    )
    assert most == max(0, (eta + 1) * every - since) * quota


def test_a_group_is_stale_once_it_is_more_than_eta_versions_old():
    assert not is_stale(oldest_version=3, version=5, max_staleness=2)
    assert is_stale(oldest_version=2, version=5, max_staleness=2)
    assert not is_stale(oldest_version=-1, version=99, max_staleness=0)
