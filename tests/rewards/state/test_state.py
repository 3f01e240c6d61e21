"""The judges of mintact-reward-state, as a run finds and runs them."""

import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.records.verdict import StateCheck
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


async def judged(registry, name, *, check=None, rewards=(), **params):
    judge = bind(registry.get("judges", name), params, where=f"judge {name}")
    task = Task("1", "go", "web")
    turns = tuple(Turn(i, "", (), "", reward=r) for i, r in enumerate(rewards))
    trajectory = Trajectory("t", "", 0, 0, task, Outcome.COMPLETED, turns=turns, state_check=check)
    view = JudgeView(trajectory, lambda digest, extension: b"")
    return await JudgeRunner(judge, name=name, deadline=60, retries=0).judge(task, view)


def test_the_distribution_registers_both_judges_under_bare_names(registry):
    for name in ("state", "environment_return"):
        assert registry.provider("judges", name) == "mintact-reward-state"


async def test_state_repeats_what_the_environment_says(registry):
    good = await judged(registry, "state", check=StateCheck(True, 1.0))
    bad = await judged(registry, "state", check=StateCheck(False, 0.5))
    assert (good.label, good.reward) == ("success", 1.0)
    assert (bad.label, bad.reward) == ("failure", 0.0)
    assert bad.components == {"success": 0.0, "score": 0.5}


async def test_state_gives_partial_credit_when_asked(registry):
    verdict = await judged(registry, "state", check=StateCheck(False, 0.5), reward="score")
    assert (verdict.label, verdict.reward) == ("failure", 0.5)


async def test_state_abstains_without_a_check_and_blames_the_environment_for_a_useless_one(
    registry,
):
    assert (await judged(registry, "state")).label == "abstain"
    broken = await judged(registry, "state", check=StateCheck(True, float("nan")))
    assert (broken.label, broken.reward) == ("environment_failure", None)


@pytest.mark.parametrize(
    ("rewards", "threshold", "label"),
    [
        ((0.0, 1.0), 1.0, "success"),
        ((0.0, 0.5), 1.0, "failure"),
        ((-1.0, -1.0), -2.0, "success"),
        ((), 1.0, "abstain"),
        ((1.0, float("inf")), 1.0, "environment_failure"),
        ((1e308, 1e308), 1.0, "environment_failure"),
    ],
)
async def test_environment_return_is_measured_against_its_threshold(
    registry, rewards, threshold, label
):
    verdict = await judged(registry, "environment_return", rewards=rewards, threshold=threshold)
    assert verdict.label == label


async def test_environment_return_can_be_the_reward_itself(registry):
    verdict = await judged(registry, "environment_return", rewards=(0.5, 0.25), reward="return")
    assert (verdict.reward, verdict.turn_rewards) == (0.75, (0.5, 0.25))


def test_a_wrong_parameter_is_refused_by_name(registry):
    with pytest.raises(ConfigurationError, match="did you mean 'threshold'"):
        bind(registry.get("judges", "environment_return"), {"treshold": 1}, where="judge")
