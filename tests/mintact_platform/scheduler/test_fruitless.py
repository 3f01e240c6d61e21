"""A person is told why a domain's groups come to nothing, and not too often."""

from types import SimpleNamespace

from mintact_platform.scheduler.fruitless import Fruitless

SOLVED = [SimpleNamespace(success=True, failure=None)] * 4
MISSED = [SimpleNamespace(success=False, failure=None)] * 4
CRASH = SimpleNamespace(phase="step", message="the browser is gone")
BROKEN = [SimpleNamespace(success=False, failure=CRASH)] * 4


def _told(*groups):
    """After which groups a line came, and the lines."""
    domain = Fruitless()
    lines = [domain.line(*group) for group in groups]
    told = [number for number, line in enumerate(lines, 1) if line]
    return told, [line for line in lines if line]


def test_groups_that_all_fail_are_explained_ever_more_rarely():
    told, lines = _told(*[("filtered", "uniform reward 0", MISSED)] * 40)
    assert told == [4, 8, 16, 32]
    assert lines[0] == "4 groups in a row gave nothing to learn from (filtered: uniform reward 0)"


def test_a_failure_is_named():
    _, lines = _told(*[("dropped", "0 live rollouts", BROKEN)] * 4)
    assert lines[0].endswith("(dropped: 0 live rollouts; the last: step: the browser is gone)")


def test_a_domain_that_is_solved_is_said_to_be():
    told, lines = _told(*[("filtered", "uniform reward 1", SOLVED)] * 130)
    assert told == [32, 64, 128]
    assert lines[0].startswith("the last 32 groups were solved by every member")


def test_a_group_to_learn_from_ends_the_row():
    missed, solved = ("filtered", "uniform reward 0", MISSED), ("filtered", "", SOLVED)
    queued = ("queued", "", MISSED)
    assert _told(*[missed] * 3, queued, *[missed] * 3)[0] == []
    assert _told(*[missed] * 3, solved, *[missed] * 3)[0] == []
    assert _told(*[solved] * 31, queued, *[solved] * 31)[0] == []
    assert _told(*[solved] * 31, missed, *[solved] * 31)[0] == []
