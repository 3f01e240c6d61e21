import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.scheduler.queue import GroupQueue, QueuedGroup
from mintact_platform.training.trainer import RowRef


def ids(groups):
    return [group.id for group in groups]


def filled(queue, *names):
    """Groups named `w1`, `t2`: web or tools, in this order."""
    domains = {"w": "web", "t": "tools"}
    return [
        evicted.id
        for name in names
        for evicted in queue.put(
            QueuedGroup(name, domains[name[0]], 0, (), 0.0), {"web": 1, "tools": 1}
        )
    ]


def test_groups_leave_in_the_order_they_came():
    queue = GroupQueue(9)
    filled(queue, "w1", "t1", "w2", "w3", "t2")
    assert ids(queue.take({"web": 2, "tools": 1}, 3)) == ["w1", "t1", "w2"]
    assert ids(queue) == ["w3", "t2"]
    assert (queue.count("web"), queue.count("tools"), len(queue)) == (1, 1, 2)


def test_no_more_than_the_total_is_taken():
    queue = GroupQueue(9)
    filled(queue, "w1", "t1", "w2")
    assert ids(queue.take({"web": 2, "tools": 2}, 2)) == ["w1", "t1"]
    assert queue.take({"web": 0}, 5) == []


def test_the_domain_furthest_over_its_quota_loses_its_oldest():
    assert filled(GroupQueue(3), "t1", "w1", "w2", "w3") == ["w1"]


def test_the_oldest_of_all_goes_when_asked_for():
    assert filled(GroupQueue(3, "oldest"), "t1", "w1", "w2", "w3") == ["t1"]


def test_among_equal_surpluses_the_older_group_goes():
    assert filled(GroupQueue(3), "t1", "w1", "w2", "t2") == ["t1"]


def test_a_queue_over_its_capacity_shrinks_with_the_next_group():
    queue = GroupQueue(2)
    for number in range(4):
        queue.append(QueuedGroup(f"w{number}", "web", 0, (), 0.0))
    assert filled(queue, "t1") == ["w0", "w1", "w2"]


@given(
    st.lists(st.sampled_from("abc"), max_size=60),
    st.integers(1, 12),
    st.sampled_from(["surplus", "oldest"]),
    st.data(),
)
def test_nothing_is_lost_or_doubled(domains, capacity, eviction, data):
    queue, gone, quotas = GroupQueue(capacity, eviction), [], {"a": 3, "b": 1}
    for number, domain in enumerate(domains):
        gone += ids(queue.put(QueuedGroup(str(number), domain, 0, (), 0.0), quotas))
        if data.draw(st.booleans()):
            limits = {d: data.draw(st.integers(0, 3)) for d in "abc"}
            taken = queue.take(limits, data.draw(st.integers(0, 6)))
            assert all(sum(g.domain == d for g in taken) <= limits[d] for d in "abc")
            gone += ids(taken)
        assert len(queue) <= capacity
        assert {d: queue.count(d) for d in "abc"} == {
            d: sum(g.domain == d for g in queue) for d in "abc"
        }
    assert sorted(gone + ids(queue), key=int) == [str(n) for n in range(len(domains))]
    assert ids(queue) == sorted(ids(queue), key=int)


@pytest.mark.parametrize("turns", [30])
def test_a_queued_trajectory_costs_little_memory(turns):
    def group(number: int) -> QueuedGroup:
        rows = tuple(
            RowRef(
                id=f"{number}-{member}" + "x" * 24,
                path=f"runs/a/trajectories/{member:02x}/{number}-{member}.safetensors",
                group=str(number),
                domain="web",
                reward=float(member),
                reward_parts={"success": 1.0, "format": 0.5},
                turn_rewards=tuple(float(number + turn) / 7 for turn in range(turns)),
            )
            for member in range(8)
        )
        return QueuedGroup(str(number), "web", 0, rows, 0.0)

    queue = GroupQueue(200)
    tracemalloc.start()
    for number in range(100):
        queue.put(group(number), {"web": 100})
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / (100 * 8) < 50_000
