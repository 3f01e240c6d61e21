"""Which server a pool asks next: by free slots, the failed and silent last, the unwilling never."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.environments.pools import placement
from mintact_platform.environments.pools.manager import PoolSpec, _options
from mintact_platform.environments.pools.placement import AVOID, Placement
from mintact_platform.errors import ConfigurationError, EnvironmentFailure


class Server:
    """What a placement looks at."""

    def __init__(self, free, name="s"):
        self.url, self.free, self.trusted = f"http://{name}", free, True


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    # the module's name, and not `time` itself: other threads read their clocks meanwhile
    monkeypatch.setattr(placement, "time", SimpleNamespace(monotonic=clock))
    return clock


def fill(placement, count):
    """Lease so many, as the seats do."""
    held = Counter()
    for _ in range(count):
        server = placement.choose(held)
        held[server] += 1
        if server.free is not None:
            server.free = max(0, server.free - 1)
    return held


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.floats(0, 1),
)
def test_leases_are_spread_in_proportion_to_free_slots(capacities, share):
    servers = [Server(free, str(n)) for n, free in enumerate(capacities)]
    wanted = int(share * sum(capacities))
    held = fill(Placement("web", servers), wanted)
    assert held.total() == wanted
    for server, capacity in zip(servers, capacities, strict=True):
        ideal = wanted * capacity / sum(capacities)
        assert held[server] <= capacity
        assert abs(held[server] - ideal) < len(servers)


def test_servers_that_did_not_say_get_equal_shares():
    servers = [Server(None, str(n)) for n in range(4)]
    held = fill(Placement("web", servers), 12)
    assert [held[server] for server in servers] == [3, 3, 3, 3]


def test_leases_that_still_boot_count():
    servers = [Server(8, "a"), Server(8, "b")]
    placement = Placement("web", servers)
    first = placement.choose(Counter())
    placement.booting[first] += 1
    first.free -= 1
    assert placement.choose(Counter()) is not first


def test_a_server_that_failed_or_fell_silent_comes_last_and_is_tried_when_there_is_no_other(clock):
    good, bad = Server(1, "good"), Server(500, "bad")
    placement = Placement("web", [good, bad])
    assert placement.choose({}) is bad
    placement.failed(bad, EnvironmentFailure("no boot", phase="create"))
    assert placement.choose({}) is good
    clock.now += AVOID + 1
    assert placement.choose({}) is bad
    bad.trusted = False
    assert placement.choose({}) is good
    placement.failed(good, ConfigurationError("not served here"))
    assert placement.choose({}) is bad


def test_a_server_that_told_us_to_wait_is_asked_when_it_said(clock):
    first, second = Server(5, "first"), Server(5, "second")
    placement = Placement("web", [first, second])

    def quarantine(server, seconds):
        error = EnvironmentFailure("x", phase="create", kind="quarantined", retry_after=seconds)
        placement.failed(server, error)

    quarantine(first, 30.0)
    assert placement.choose({}) is second
    assert placement.wait(second) == 0
    quarantine(second, 12.0)
    assert [placement.wait(server) for server in (first, second)] == [30.0, 12.0]
    clock.now += 12.0
    assert placement.choose({}) is second
    assert placement.wait(second) == 0
    second.trusted = False
    assert placement.choose({}) is first, "rather wait for one than ask who does not answer"
    assert placement.wait(first) == 18.0
    second.trusted = True
    placement.back(first)
    assert placement.choose({second: 1}) is first


def test_the_server_of_this_machine_may_tell_us_to_wait_too(clock):
    here, placement = Server(None), Placement("web", [])
    error = EnvironmentFailure("x", phase="create", kind="quarantined", retry_after=7.0)
    placement.failed(here, error)
    assert placement.wait(here) == 7.0
    placement.failed(
        here, EnvironmentFailure("all 2 leases are taken", phase="create", kind="full")
    )
    assert placement.wait(here) > 0
    placement.failed(here, EnvironmentFailure("no boot", phase="create"))
    clock.now += 100
    assert placement.wait(here) == 0


def test_unwilling_servers_are_left_out_with_a_line_until_all_are(caplog):
    servers = [Server(5, "one"), Server(5, "two")]
    placement = Placement("web", servers)
    placement.failed(servers[0], ConfigurationError("environment 'x' is not served here"))
    assert caplog.messages == [
        "web: goes on without http://one: environment 'x' is not served here"
    ]
    assert [placement.choose({}) for _ in range(3)] == [servers[1]] * 3
    placement.failed(servers[1], ConfigurationError("environment 'x' is not served here"))
    with pytest.raises(ConfigurationError, match="not served here"):
        placement.choose({})
    placement.back(servers[0])
    assert placement.choose({}) is servers[0], "a restarted server may serve something else"


def test_a_lease_moves_only_where_that_evens_things_out(clock):
    full, empty = Server(8, "full"), Server(10, "empty")
    placement = Placement("web", [full, empty])
    assert placement.crowded({full: 2}) is full
    assert placement.crowded({full: 3, empty: 1}) is full
    assert placement.crowded({full: 2, empty: 1}) is None
    assert placement.crowded({full: 1}) is None, "one lease has to be somewhere"
    full.free = 0
    assert placement.crowded({full: 8}) is full
    empty.free = 0
    assert placement.crowded({full: 8}) is None
    empty.free, empty.trusted = 10, False
    assert placement.crowded({full: 8}) is None
    empty.trusted = True
    placement.failed(empty, EnvironmentFailure("no boot", phase="create"))
    assert placement.crowded({full: 8}) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4))
def test_moving_leases_comes_to_rest(slots):
    """Slots are (held, free) of each server."""
    servers = [Server(free, str(n)) for n, (_, free) in enumerate(slots)]
    held = Counter({server: taken for server, (taken, _) in zip(servers, slots, strict=True)})
    placement = Placement("web", servers)
    total = held.total()
    for _ in range(200):
        crowded = placement.crowded(held)
        if crowded is None:
            break
        held[crowded] -= 1
        crowded.free += 1
        server = placement.choose(held)
        assert server is not crowded
        held[server] += 1
        server.free -= 1
    else:
        raise AssertionError("leases move for ever")
    assert held.total() == total


def test_the_server_of_this_machine_has_room_for_every_instance_of_its_pools():
    def spec(instances, *servers):
        return PoolSpec("e", {}, instances, servers=servers)

    small = {"a": spec(4)}
    many = {"a": spec(400), "b": spec(600), "far": spec(9000, "http://far")}
    assert _options(small, {})["capacity"] == 512
    assert _options(many, {})["capacity"] >= 1000
    assert _options(many, {"capacity": 3})["capacity"] == 3, "who names it has it"
