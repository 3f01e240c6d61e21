"""Rows of verifiers' datasets as tasks, by this interpreter or by another."""

import os
import stat
import sys
from pathlib import Path

import pytest

from mintact_platform.config import DomainSection
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.scheduler.bindings import action_space

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


def listed(registry, split="train", **params):
    name = "verifiers/toy-games"
    return bind(registry.get("task_sets", name), {"split": split, **params}, where=name)()


def test_every_row_is_a_task_whose_goal_is_its_prompt(registry, standin):
    tasks = listed(registry)
    assert [task.id for task in tasks] == [f"verifiers/toy-games/train/{k}" for k in range(3)]
    assert tasks[1].goal == "Answer with the word alone.\n\nReverse stressed."
    assert tasks[1].params == {"part": "train", "row": 1}
    assert len(listed(registry, count=2)) == 2


def test_the_evaluation_dataset_is_the_test_split(registry, standin):
    (task,) = listed(registry, "test")
    assert (task.split, task.params["part"]) == ("test", "eval")
    assert "Reverse live." in task.goal


def test_training_rows_never_stand_in_for_a_split_that_is_not_there(registry, standin):
    with pytest.raises(ConfigurationError, match="it has no eval_dataset"):
        listed(registry, "test", args={"kind": "guess"})
    with pytest.raises(ConfigurationError, match="no split 'validation'; use train or test"):
        listed(registry, "validation")


def test_rows_may_be_held_out_where_there_is_no_evaluation_dataset(registry, standin):
    args = {"kind": "guess"}
    (test,) = listed(registry, "test", args=args, heldout=1)
    (train,) = listed(registry, "train", args=args, heldout=1)
    assert (test.params["row"], train.params["row"]) == (0, 1)


async def test_a_task_of_another_dataset_is_refused(make):
    with pytest.raises(ConfigurationError, match=r"row 7 of 3.*must have the same `args`"):
        await make("reverse").reset(options={"task": {"params": {"part": "train", "row": 7}}})


async def test_without_a_task_the_seed_chooses_a_row(make):
    environment = make("reverse")
    await environment.reset(seed=4)
    step = {"name": "answer", "arguments": {"text": "desserts"}}
    assert (await environment.step(step))[1] == 1.0


def test_another_interpreter_lists_the_tasks_that_this_one_cannot(registry, tmp_path, monkeypatch):
    other = tmp_path / "python"
    paths = os.pathsep.join(str(HERE / folder) for folder in ("standin", "toys"))
    other.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec {sys.executable} "$@"\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    tasks = listed(registry, python=str(other))
    assert len(tasks) == 3
    with pytest.raises(ConfigurationError, match=r"cannot list tasks:.*no eval_dataset"):
        listed(registry, "test", python=str(other), args={"kind": "guess"})
    with pytest.raises(ConfigurationError, match="cannot list tasks"):
        listed(registry, python=str(tmp_path / "none"))


def test_without_verifiers_the_family_says_what_it_needs(registry):
    member = registry.get("environments", "verifiers/wordle")
    assert member.missing() == ("the package 'verifiers' is not installed: pip install verifiers")


def test_a_domain_may_run_where_only_another_interpreter_has_verifiers(registry, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)

    def space(**more):
        section = DomainSection(
            environment="verifiers/wordle", tasks="verifiers/wordle:train", **more
        )
        return action_space(section, registry, where="domain 'words'", deadline=60.0)

    assert space(python=str(other)).name == "tool_use"
    with pytest.raises(ConfigurationError, match="python: interpreter '/envs/words/bin/python'"):
        space(python="/envs/words/bin/python")
    with pytest.raises(ConfigurationError, match="cannot run here: the package 'verifiers'"):
        space()
