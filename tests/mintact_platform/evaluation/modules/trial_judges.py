"""Judges to try on recorded runs: good ones, doubtful ones and hostile ones."""

import asyncio
import os
import signal
import threading
import time

from mintact_platform import Verdict, judge


def verdict(done, **values):
    return Verdict("success" if done else "failure", reward=float(done), **values)


async def honest(task, trajectory):
    """Reads the state check, and every image, as one that looks would."""
    for turn in trajectory.turns:
        assert all(data[:4] == b"\x89PNG" for data in trajectory.images(turn.index))
    if trajectory.state_check is None:
        return Verdict("abstain", reason="no state check")
    return verdict(trajectory.state_check.success, reason="looked", cost=0.01)


def lenient(task, trajectory, *, cost: float = 0.5):
    return verdict(True, reason="it [bold]says[/bold] done", cost=cost)


def dated(task, trajectory, *, since=None):
    return verdict(since is None)


def doubtful(task, trajectory):
    """Every label there is, by the task's number."""
    number = int(task.id.rpartition("-")[2])
    if number % 4 == 0:
        return Verdict("abstain", reason="cannot tell")
    if number % 4 == 1:
        return Verdict("environment_failure", reason="a blank page")
    return verdict(number % 4 == 2)


@judge(cacheable=True)
def counted(task, trajectory):
    """Leaves a trace of every call."""
    with open(os.environ["TRIAL_CALLS"], "a") as file:
        file.write(f"{trajectory.trajectory.id}\n")
    return verdict(True)


def raises(task, trajectory):
    raise RuntimeError("boom\nwith a second line")


async def hangs(task, trajectory):
    await asyncio.Event().wait()


def hangs_in_a_thread(task, trajectory):
    threading.Event().wait()


def garbage(task, trajectory):
    return {"label": "success", "reward": 1.0}


def exits(task, trajectory):
    raise SystemExit(3)


def chatty(task, trajectory):
    print("thinking")
    return verdict(True)


def greedy(task, trajectory):
    """Changes all it can reach, then says yes."""
    task.params["item"] = "changed"
    for turn in trajectory.turns:
        for call in turn.calls:
            call["arguments"].clear()
    return verdict(True)


def sometimes(task, trajectory):
    """Fails on every second task."""
    if int(task.id.rpartition("-")[2]) % 2:
        raise OSError("no route")
    return verdict(True)


class Closed:
    """Cannot be opened."""

    async def open(self):
        raise OSError("no key in JUDGE_KEY")

    async def judge(self, task, trajectory):
        return verdict(True)


async def stops(task, trajectory):
    """Judges three, then acts as a person at the keyboard."""
    path = os.environ["TRIAL_CALLS"]
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) > 3:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)
    return verdict(True)


def slow(task, trajectory, *, seconds: float = 0.3):
    time.sleep(seconds)
    return verdict(True)
