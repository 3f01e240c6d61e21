"""Members that say what a test wants, under names that a run file could use."""

from __future__ import annotations

import sys
import types

import pytest

from mintact_platform import Verdict, judge
from mintact_platform.errors import JudgeError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn

LETTERS = {
    "S": Verdict("success", reward=1.0, reason="seen", cost=0.25),
    "F": Verdict("failure", reward=0.0, reason="not seen", cost=0.5),
    "E": Verdict("environment_failure", reason="captcha"),
    "A": Verdict("abstain", reason="blurred"),
}


@judge(cacheable=True)
async def says(task, trajectory, *, letter: str):
    if letter == "X":
        raise JudgeError("the endpoint is down")
    return LETTERS[letter]


@judge(cacheable=True, remote=True)
async def far(task, trajectory, *, letter: str = "S"):
    return LETTERS[letter]


async def plain(task, trajectory):
    return LETTERS["S"]


async def scores(task, trajectory, *, reward: float = 1.0, turns: list[float] | None = None):
    label = "success" if reward > 0 else "failure"
    return Verdict(
        label,
        reward=reward,
        components={"a": 0.5},
        turn_rewards=None if turns is None else tuple(turns),
    )


class Opened:
    """Counts its openings and closings."""

    events: list[str] = []

    async def open(self):
        self.events.append("open")

    async def judge(self, task, trajectory):
        return LETTERS["S"]

    async def close(self):
        self.events.append("close")


@pytest.fixture(autouse=True)
def members(monkeypatch):
    module = types.ModuleType("acme_members")
    for name, target in {"says": says, "far": far, "plain": plain, "scores": scores}.items():
        setattr(module, name, target)
    module.Opened = Opened
    monkeypatch.setattr(Opened, "events", [])
    monkeypatch.setitem(sys.modules, "acme_members", module)
    return module


@pytest.fixture
def view():
    task = Task("1", "go", "web")
    turns = tuple(Turn(i, "", (), "", reward=r) for i, r in enumerate((0.0, 0.25, 0.75)))
    trajectory = Trajectory("t", "", 0, 0, task, Outcome.COMPLETED, turns=turns)
    return JudgeView(trajectory, lambda digest, extension: b"")


@pytest.fixture
def ask(view):
    async def asked(target, one=view, **options):
        given = {"deadline": 60.0, "retries": 0, "backoff": 0.0, **options}
        async with JudgeRunner(target, name="panel", **given) as runner:
            return await runner.judge(one.task, one)

    return asked
