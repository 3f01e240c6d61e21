"""The judge `process`: turn rewards that add up to the reward."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_reward_panel.credit import added, differences, shared
from mintact_reward_panel.process import Process

from mintact_platform.errors import ConfigurationError, JudgeError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.registry.parameters import bind

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=20)
rewards = st.floats(-10, 10)


@given(numbers, rewards)
def test_a_shared_reward_adds_up_and_follows_the_merits(raw, reward):
    turns = shared(raw, reward)
    assert len(turns) == len(raw)
    assert fsum(turns) == pytest.approx(reward, abs=1e-9)
    if any(value > 1e-3 for value in raw):
        for value, turn in zip(raw, turns, strict=True):
            assert value > 0 or turn == pytest.approx(0, abs=1e-9)


@given(numbers, rewards, st.floats(0, 10))
def test_an_added_bonus_adds_up(raw, reward, weight):
    turns = added(raw, reward, weight)
    assert len(turns) == len(raw)
    assert fsum(turns) == pytest.approx(reward + weight * fsum(raw), abs=1e-6)


@given(numbers)
def test_differences_add_up_to_the_last_total(progress):
    assert fsum(differences(progress)) == pytest.approx(progress[-1], abs=1e-9)


def test_without_merit_the_last_turn_gets_the_reward():
    assert shared([0, -1, 0], 1.0) == (0.0, 0.0, 1.0)
    assert shared([], 1.0) == added([], 1.0, 1.0) == differences([]) == ()
    assert shared([1, 0, 3], 2.0) == (0.5, 0.0, 1.5)
    assert added([1, 0, 3], 1.0, 0.5) == (0.5, 0.0, 2.5)
    assert differences([0.25, 0.25, 1.0]) == (0.25, 0.0, 0.75)


def process(inner, **params):
    choice = {"name": "acme_members:scores", "params": inner}
    return bind(Process, {"judge": choice, **params}, where="judge 'process'")


async def test_the_inner_judges_scores_share_its_reward(ask):
    verdict = await ask(process({"turns": [0, 1, 3]}))
    assert (verdict.reward, verdict.turn_rewards) == (1.0, (0.0, 0.25, 0.75))
    assert verdict.components == {"a": 0.5, "outcome": 1.0, "process": 4.0}
    lost = await ask(process({"reward": 0.0, "turns": [0, 1, 3]}))
    assert (lost.reward, lost.turn_rewards) == (0.0, (0.0, 0.0, 0.0))


async def test_a_bonus_is_also_given_where_the_task_was_missed(ask):
    verdict = await ask(process({"reward": 0.0, "turns": [0, 1, 1]}, credit="bonus", weight=0.1))
    assert verdict.label == "failure"
    assert verdict.turn_rewards == pytest.approx((0.0, 0.1, 0.1))
    assert verdict.reward == pytest.approx(fsum(verdict.turn_rewards))


async def test_progress_is_what_each_turn_added(ask):
    verdict = await ask(process({"turns": [0.2, 0.2, 1.0]}, progress=True))
    assert verdict.turn_rewards == pytest.approx((0.2, 0.0, 0.8))


async def test_numbers_may_come_from_the_environment_or_from_usable_responses(ask):
    assert (await ask(process({}, turns="steps"))).turn_rewards == (0.0, 0.25, 0.75)
    turns = (Turn(0, "", (), "", error="no call"), Turn(1, "", (), ""), Turn(2, "", (), ""))
    trajectory = Trajectory("t", "", 0, 0, Task("1", "g", "web"), Outcome.COMPLETED, turns=turns)
    view = JudgeView(trajectory, lambda digest, extension: b"")
    assert (await ask(process({}, turns="usable"), view)).turn_rewards == (0.0, 0.5, 0.5)


async def test_a_rollout_without_turns_keeps_its_reward(ask):
    trajectory = Trajectory("t", "", 0, 0, Task("1", "g", "web"), Outcome.COMPLETED)
    view = JudgeView(trajectory, lambda digest, extension: b"")
    for credit in ("share", "bonus"):
        verdict = await ask(process({}, turns="steps", credit=credit), view)
        assert (verdict.reward, verdict.turn_rewards) == (1.0, ())


@pytest.mark.parametrize(("letter", "label"), [("A", "abstain"), ("E", "environment_failure")])
async def test_without_a_reward_there_is_nothing_to_spread(letter, label, ask):
    inner = {"name": "acme_members:says", "params": {"letter": letter}}
    verdict = await ask(bind(Process, {"judge": inner}, where=""))
    assert (verdict.label, verdict.reward, verdict.turn_rewards) == (label, None, None)


async def test_an_inner_judge_without_scores_is_told_once(ask):
    said = r"after 1 attempt: judge 'acme_members:scores' gives no turn rewards"
    with pytest.raises(JudgeError, match=said):
        await ask(process({}), retries=3)
    inner = {"name": "acme_members:says", "params": {"letter": "X"}}
    with pytest.raises(JudgeError, match="the endpoint is down"):
        await ask(bind(Process, {"judge": inner}, where=""))


def test_it_is_what_its_inner_judge_is():
    def runner(name, **params):
        judge = bind(Process, {"judge": {"name": name, "params": params}}, where="")
        return JudgeRunner(judge, name="p", deadline=1.0)

    assert (runner("acme_members:far").cacheable, runner("acme_members:far").remote) == (True, True)
    assert not runner("acme_members:plain").cacheable
    assert runner("acme_members:far").identity["parts"]["name"] == "acme_members:far"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"judge": "state", "weight": 2.0}, "credit"),
        ({"judge": {"name": "state", "cache": True}}, "cannot be cached by itself"),
        ({"judge": "state", "turns": "pages"}, "parameter 'turns'"),
    ],
)
def test_a_wrong_parameter_is_refused(params, said):
    with pytest.raises(ConfigurationError, match=said):
        bind(Process, params, where="judge 'process'")()
