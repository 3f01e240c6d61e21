from __future__ import annotations

import functools
import json
import shutil
import sys
import types
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Annotated, Any, Protocol, TypedDict

import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.named import check_judge
from mintact_platform.judging.recognised import WANTED, why_no_judge
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import Verdict


def says(kind):
    def judge(task, trajectory, *, strict: bool = True): ...

    judge.__annotations__["return"] = kind
    return judge


def given(first, second):
    def judge(task, trajectory, *more): ...

    judge.__annotations__ |= {"task": first, "trajectory": second}
    return judge


class Shape(Protocol):
    label: str


class Strict(Verdict):
    pass


class Asked:
    def judge(self, task: Task, trajectory: JudgeView) -> Verdict: ...


class Called:
    async def __call__(self, task, trajectory): ...


class Row(TypedDict):
    success: bool


def adapted(function):
    @functools.wraps(function)
    def judge(task, trajectory): ...

    return judge


JUDGES = [
    adapted(lambda answer: True),
    adapted(says(float)),
    lambda task, trajectory: None,
    lambda *anything: None,
    lambda t, v, scale=1.0: None,
    Asked().judge,
    Called(),
    functools.partial(says(Verdict), strict=False),
    given(Task, JudgeView),
    given(Any, object),
    given(Shape, "NotImported"),
    *map(says, [
        Verdict, Strict, object, Any, Shape, "Verdict", "NotImported", Verdict | None,
        Awaitable, Awaitable[Verdict], Coroutine[Any, Any, Verdict], Annotated[Verdict, "yes"],
    ]),
]  # fmt: skip


@pytest.mark.parametrize("judge", JUDGES)
def test_what_may_be_a_judge_is_taken(judge):
    assert why_no_judge(judge) == ""


def test_a_file_of_ones_own_may_be_called_like_one_of_pythons(monkeypatch, tmp_path):
    own = types.ModuleType("code")
    own.__file__ = str(tmp_path / "code.py")
    monkeypatch.setitem(sys.modules, "code", own)
    judge = says(Verdict)
    judge.__module__ = "code"
    assert why_no_judge(judge) == ""


NONE = {
    "returns int, not": says(int),
    "returns None, not": says(None),
    "returns Row, not": says(Row),
    "returns float | None, not": says(float | None),
    "returns list[collections.abc.Mapping[str, int]], not": says(list[Mapping[str, int]]),
    "returns collections.abc.Awaitable[bool], not": says(Awaitable[bool]),
    "takes int where it is given a task": given(int, Any),
    "takes str | bytes where it is given a trajectory": given(Task, str | bytes),
    "cannot be called with (task, trajectory)": lambda task: None,
    "is copy of Python's own library": shutil.copy,
    "is dump of Python's own library": functools.partial(json.dump, indent=2),
}


@pytest.mark.parametrize("said", NONE)
def test_what_is_none_is_told_apart_and_why(said):
    assert why_no_judge(NONE[said]).startswith(said)


def test_the_refusal_is_one_line_that_says_what_a_judge_needs():
    with pytest.raises(ConfigurationError) as caught:
        check_judge(JudgeRunner(says(float), name="mine:score", deadline=1.0))
    assert str(caught.value) == f"judge 'mine:score' returns float, not a Verdict; {WANTED}"
