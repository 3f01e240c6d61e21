"""The measured table of flow controls, row by row, over five seeds."""

import pytest

SEEDS = 5
ROWS = [
    (2, {"fill": "fifo", "flow_control": "none", "eviction": "oldest"}, 0.86, 0.27),
    (2, {"flow_control": "none"}, 0.50, 0.71),
    (2, {"flow_control": "admitted"}, 0.50, 0.71),
    (2, {"flow_control": "quota_normalised"}, 0.50, 0.0),
    (2, {"flow_control": "credit"}, 0.50, 0.0),
    (4, {"flow_control": "none"}, 0.25, 0.86),
    (4, {"flow_control": "admitted"}, 0.25, 0.86),
    (4, {"flow_control": "quota_normalised"}, 0.25, 0.0),
    (4, {"flow_control": "credit"}, 0.25, 0.0),
]
# without flow control four domains waste most of what is simulated: these two take longest
LONGEST = [pytest.param(*row, marks=pytest.mark.runs) for row in ROWS[5:7]]


def check(results, share, wasted):
    for result in results:
        first = next(iter(result.domains.values()))
        assert first.share == pytest.approx(share, abs=0.02)
        assert result.wasted == pytest.approx(wasted, abs=0.05 if wasted else 0.01)


@pytest.mark.parametrize(
    ("domains", "schedule", "share", "wasted"), [*ROWS[:5], *LONGEST, *ROWS[7:]]
)
def test_a_row_of_the_table_is_reproduced(run, domains, schedule, share, wasted):
    check(run(domains, seeds=SEEDS, **schedule), share, wasted)


@pytest.mark.slow
@pytest.mark.parametrize(("domains", "schedule", "share", "wasted"), ROWS)
def test_a_row_of_the_table_is_reproduced_over_all_its_steps(run, domains, schedule, share, wasted):
    check(run(domains, seeds=SEEDS, steps=150, **schedule), share, wasted)


STARVED = [("domains.slow.informative", 0.0)]


@pytest.mark.parametrize("flow", ["quota_normalised", "credit"])
def test_a_starved_domain_never_stops_the_run(run, flow):
    for result in run(
        seeds=SEEDS, steps=20, flow_control=flow, fallback_after=600.0, changes=STARVED
    ):
        assert (result.steps, result.relaxed, result.stuck) == (20, 20, False)
        assert (result.domains["fast"].share, result.wasted) == (1.0, 0.0)


def test_without_releases_the_fallback_deadlocks_on_a_starved_domain(run):
    changes = [*STARVED, ("release_on_fallback", False)]
    for result in run(seeds=SEEDS, steps=20, fallback_after=600.0, changes=changes):
        # work begun before it paused may fill a few batches; then nobody moves
        assert result.stuck
        assert result.steps < 20


def test_evicting_the_oldest_of_all_without_flow_control_starves_the_slow_domain(run):
    # its groups are evicted before a quota of them is together; the fallback is what goes on
    changes = [("hours", 6.0)]
    literal = {"flow_control": "none", "eviction": "oldest", "changes": changes}
    (stands,) = run(steps=500, **literal)
    (fair,) = run(steps=500, flow_control="none", changes=changes)
    (falls_back,) = run(steps=500, **{**literal, "fallback_after": 120.0})
    assert stands.steps < fair.steps / 4
    assert falls_back.steps > fair.steps
    assert falls_back.relaxed > falls_back.steps / 2
