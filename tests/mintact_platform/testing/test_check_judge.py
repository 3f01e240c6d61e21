"""Every way a judge can be wrong is caught by the check that is about it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mintact_platform import Outcome, Verdict
from mintact_platform.testing import ConformanceError, check_judge, judge, sample_trajectory


def caught(specimen, **options):
    with pytest.raises(ConformanceError) as failure:
        check_judge(specimen, **options)
    return str(failure.value)


def verdict_of(trajectory):
    check = trajectory.state_check
    if check is None:
        return Verdict("abstain")
    return Verdict("success" if check.success else "failure", reward=check.score)


async def good(task, trajectory, *, bonus: float = 0.0):
    return verdict_of(trajectory)


def good_plain(task, trajectory):
    for turn in range(len(trajectory.turns)):
        assert all(image.startswith(b"\x89PNG") for image in trajectory.images(turn))
    return verdict_of(trajectory)


class Good:
    def __init__(self, *, bonus: float = 0.0):
        self.bonus, self.is_open = bonus, False

    async def open(self):
        self.is_open = True

    async def judge(self, task, trajectory):
        assert self.is_open
        return verdict_of(trajectory)


@pytest.mark.parametrize("kind", [good, good_plain, Good])
def test_nothing_is_wrong_with_these(kind):
    check_judge(kind)


async def needs_check(task, trajectory):
    return Verdict("success", reward=trajectory.state_check.score)


async def needs_images(task, trajectory):
    trajectory.images(0)[0]
    return verdict_of(trajectory)


async def needs_turns(task, trajectory):
    trajectory.turns[-1].calls[0]
    return verdict_of(trajectory)


async def garbage(task, trajectory):
    return {"label": "success"}


async def not_a_number(task, trajectory):
    return Verdict("success", reward=float("nan"))


async def wrong_turns(task, trajectory):
    return Verdict("success", reward=1.0, turn_rewards=(1.0,) * 17)


async def invents(task, trajectory):
    return Verdict("failure", reward=0.0)


async def mutates(task, trajectory):
    for turn in trajectory.turns:
        for call in turn.calls:
            call["arguments"].clear()
    return verdict_of(trajectory)


async def writes_tokens(task, trajectory):
    for segment in trajectory.trajectory.segments:
        segment.logprobs[:] = 0
    return verdict_of(trajectory)


def exits(task, trajectory):
    raise SystemExit("enough")


async def positional(task, trajectory, bonus=1.0):
    return verdict_of(trajectory)


async def alone(trajectory):
    return verdict_of(trajectory)


class Once:
    """Judges a trajectory once only."""

    def __init__(self):
        self.seen = set()

    def judge(self, task, trajectory):
        if trajectory.trajectory.id in self.seen:
            raise LookupError("judged already")
        self.seen.add(trajectory.trajectory.id)
        return verdict_of(trajectory)


class Mute:
    def evaluate(self, task, trajectory):
        return verdict_of(trajectory)


class Closed:
    def open(self):
        raise ConnectionError("no endpoint")

    def judge(self, task, trajectory):
        return verdict_of(trajectory)


class Unmade:
    def __init__(self):
        raise OSError("no key")

    def judge(self, task, trajectory):
        return verdict_of(trajectory)


SPECIMENS = {
    needs_check: "it gives a verdict on one without a state check",
    needs_images: "it gives a verdict on one without images",
    needs_turns: "it gives a verdict on one without turns or state check",
    garbage: "seen: returned dict, not a Verdict",
    not_a_number: "a 'success' verdict needs a finite reward",
    wrong_turns: "seen: gave 17 turn rewards for 3 turns",
    invents: "where there is nothing to judge it abstains",
    mutates: "it only reads what it judges",
    writes_tokens: "read-only",
    exits: "SystemExit: enough",
    positional: "'bonus' is positional: a run file could not set it",
    alone: "it takes 2 positional arguments",
    Once: "it gives a verdict on a success, a second time",
    Mute: "a class has a method judge",
    Closed: "ConnectionError: no endpoint",
    Unmade: "seen: OSError: no key",
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda kind: kind.__name__)
def test_a_broken_judge_is_caught_by_the_check_that_is_about_it(specimen):
    assert SPECIMENS[specimen] in caught(specimen)


def test_where_names_the_line_that_raised():
    line = needs_images.__code__.co_firstlineno + 1
    assert f"test_check_judge.py:{line}" in caught(needs_images)


def test_a_judge_that_never_answers_is_told(monkeypatch):
    async def waits(task, trajectory):
        await judge.asyncio.Event().wait()

    def hangs(task, trajectory):
        threading.Event().wait()

    monkeypatch.setattr(judge, "DEADLINE", 0.5)
    for specimen in (waits, hangs):
        assert "no answer within 0.5 s" in caught(specimen)


STOPPED = """
import os, signal
from mintact_platform import Verdict
from mintact_platform.testing import check_judge

stops = iter([signal.SIGSTOP])

async def stopped(task, trajectory):
    for number in stops:
        os.kill(os.getpid(), number)
    return Verdict("abstain")

check_judge(stopped)
print("a judge")
"""


def test_time_in_which_the_process_stood_still_counts_against_nobody():
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(2.3)  # longer than a loop may stand still
        process.send_signal(signal.SIGCONT)
        told, _ = process.communicate(timeout=60)
    assert told == "a judge\n"


def test_a_judge_that_blocks_the_event_loop_is_told(monkeypatch):
    async def blocks(task, trajectory):
        time.sleep(0.6)
        return verdict_of(trajectory)

    async def spins(task, trajectory):
        while True:
            time.sleep(0.1)

    monkeypatch.setattr(judge, "_BLOCKED", 0.3)
    text = caught(blocks)
    assert "it blocked the event loop for" in text
    assert "write `def`" in text
    monkeypatch.setattr(judge, "DEADLINE", 0.2)
    monkeypatch.setattr("mintact_platform.testing.apart._JOIN", 0.1)
    assert "the event loop stands still" in caught(spins)


def test_parameters_are_checked_as_a_run_file_would():
    check_judge(good, params={"bonus": 1})
    assert "unknown parameter 'bonsu'; did you mean 'bonus'?" in caught(good, params={"bonsu": 1})


def test_trajectories_can_be_handed_in():
    seen = []

    def notes(task, trajectory):
        seen.append(trajectory.outcome)
        return verdict_of(trajectory)

    check_judge(notes, trajectories=[sample_trajectory(outcome=Outcome.MAX_TURNS)])
    assert set(seen) == {Outcome.MAX_TURNS, Outcome.ENVIRONMENT_FAILURE}


def test_sample_trajectories_are_what_a_run_records():
    view = sample_trajectory(turns=4, success=False, rewards=(0.0, 0.5, 0.0, 0.0))
    assert [len(view.images(k)) for k in range(4)] == [1] * 4
    assert len({image for k in range(4) for image in view.images(k)}) == 4
    assert view.step_rewards == (0.0, 0.5, 0.0, 0.0)
    (segment,) = view.trajectory.segments
    assert len(segment.images) == 4
    assert not segment.mask[[image.position for image in segment.images]].any()
    again = sample_trajectory(turns=4, success=False, rewards=(0.0, 0.5, 0.0, 0.0))
    assert again.trajectory.to_json() == view.trajectory.to_json()
