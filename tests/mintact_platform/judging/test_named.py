"""Judges by name, for composites and for judging again."""

import pytest

from mintact_platform.config import JudgePlugin
from mintact_platform.errors import ConfigurationError, PluginError, PluginNotFound
from mintact_platform.judging.named import judge_named, runner_of
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.registry.names import Registry


async def test_a_named_judge_is_bound_and_runs(view):
    judge = judge_named("state", {"reward": "score"})
    async with JudgeRunner(judge, name="state", deadline=60.0) as runner:
        assert (await runner.judge(view.task, view)).reward == 1.0


def test_a_wrong_name_or_parameter_says_what_was_meant():
    registry = Registry.discover()
    with pytest.raises(PluginNotFound, match="did you mean 'state'"):
        judge_named("stat", registry=registry)
    with pytest.raises(ConfigurationError, match=r"judge 'state'.*did you mean 'reward'"):
        judge_named("state", {"rewrad": "score"}, registry=registry)


def test_a_choice_brings_its_own_limits():
    choice = JudgePlugin(name="state", retries=4, concurrency=2, requests_per_minute=30)
    runner = runner_of(choice, deadline=3.0, registry=Registry.discover())
    assert (runner.name, runner.retries, runner.deadline) == ("state", 4, 3.0)


def test_a_class_that_cannot_be_made_is_the_plugins_error():
    class Odd:
        def __init__(self):
            raise OSError("no model\nhere")

    with pytest.raises(PluginError, match=r"judge 'odd': cannot be made: OSError: no model$"):
        JudgeRunner(Odd, name="odd", deadline=1.0)
