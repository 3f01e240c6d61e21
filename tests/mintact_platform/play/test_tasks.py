"""What is played, from the words of the command line."""

from __future__ import annotations

import pytest

from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.play.tasks import choose_tasks
from mintact_platform.registry.names import Registry


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


def test_the_task_set_of_the_environments_name_is_the_default(registry):
    tasks = choose_tasks(registry, "micro/web")
    assert [tasks.next().id for _ in range(2)] == ["micro/web/train/0000", "micro/web/train/0001"]


def test_a_split_and_a_task_can_be_chosen(registry):
    assert choose_tasks(registry, "x", tasks="micro/web:test").next().id == "micro/web/test/0000"
    tasks = choose_tasks(registry, "micro/web", task="micro/web/validation/0399")
    assert tasks.next().id == "micro/web/validation/0399"
    assert tasks.next().id == "micro/web/validation/0000"


def test_a_goal_of_ones_own_and_a_seed_need_no_task_set(registry):
    tasks = choose_tasks(registry, "acme/maze", goal="escape", seed=5)
    first, second = tasks.next(), tasks.next()
    assert (first.goal, first.seed, second.seed) == ("escape", 5, 6)
    assert first.id != second.id
    assert choose_tasks(registry, "micro/web", seed=3).next().goal == ""
    assert choose_tasks(registry, "acme/maze").next().seed == 0
    assert choose_tasks(registry, "module:Class").next().seed == 0


def test_a_family_has_tasks_of_its_members(registry):
    assert choose_tasks(registry, "gym/CartPole-v1").next().goal


def test_a_member_of_a_family_may_have_a_colon_of_its_own(registry):
    name = "gym/gymnasium.envs.classic_control:CartPole-v1"
    for wanted in (None, f"{name}:train"):
        assert choose_tasks(registry, name, tasks=wanted).next().split == "train"
    with pytest.raises(ConfigurationError, match="did you mean 'gym/CartPole-v1:train'"):
        choose_tasks(registry, "gym/CartPole-v1", tasks="gym/CartPole-v1:tarin")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"task": "micro/web/test/9999"}, ConfigurationError, "no task 'micro/web/test/9999'"),
        ({"tasks": "micro/wbe"}, PluginNotFound, "did you mean 'micro/web'"),
        ({"tasks": "micro/web", "goal": "x"}, ConfigurationError, "leave out --goal"),
        ({"environment": "acme/maze", "task": "x"}, ConfigurationError, "name one with --tasks"),
    ],
)
def test_a_mistake_says_what_to_do(registry, words, error, message):
    with pytest.raises(error, match=message):
        choose_tasks(registry, **{"environment": "micro/web", **words})
