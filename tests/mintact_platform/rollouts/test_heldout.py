"""An evaluation that was cut short goes on with the tasks it has not recorded."""

from __future__ import annotations

from functools import partial

from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.rollouts.heldout import HeldOut, held_out, missing_tasks, recorded
from mintact_platform.rollouts.rollouter import Judged
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory


async def test_only_what_was_not_recorded_is_played_and_repeated_tasks_are_counted(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", config_toml="", plugins={}, metadata={})
    one, two = (Task(name, "goal", "mobile", "test") for name in ("one", "two"))
    trajectory = Trajectory("T" * 26, "", 0, 0, one, Outcome.COMPLETED)
    path = directory.trajectories.save(trajectory)
    await directory.database.write(ledger.add_evaluation(trajectory, path, step=0, label="before"))
    wanted = {"mobile": [one, two, one]}
    assert missing_tasks(directory, wanted, step=0, label="before") == {"mobile": [two, one]}
    assert missing_tasks(directory, wanted, step=1, label="before") == wanted
    assert missing_tasks(directory, wanted, step=0, label="after") == wanted
    directory.close()


async def test_domains_of_the_same_tasks_are_told_apart_and_masked_episodes_can_be_played_again(
    tmp_path,
):
    directory = RunDirectory.create(tmp_path / "run", config_toml="", plugins={}, metadata={})
    task, add = Task("one", "goal", "mobile", "test"), partial(ledger.add_evaluation, step=0)
    won = {"verdict": Verdict("success", reward=1.0), "reward": 1.0}
    for name, domain, judged in (("A", "phone", won), ("B", "tablet", won), ("C", "tablet", {})):
        trajectory = Trajectory(name * 26, "", 0, 0, task, Outcome.COMPLETED)
        path = directory.trajectories.save(trajectory)
        await directory.database.write(add(trajectory, path, domain=domain, label="gate", **judged))
    wanted, here = {"phone": [task] * 2, "tablet": [task] * 2}, {"step": 0, "label": "gate"}
    assert missing_tasks(directory, wanted, **here) == {"phone": [task], "tablet": []}
    assert missing_tasks(directory, wanted, **here, masked=True) == {
        "phone": [task],
        "tablet": [task],
    }
    assert recorded(directory, **here) == {"phone": HeldOut(1, 1, 0), "tablet": HeldOut(1, 1, 1)}
    directory.close()


def test_partial_credit_is_no_success():
    trajectory = Trajectory("t", "g", 0, 0, Task("t", "g", "web"), Outcome.COMPLETED)
    failed, done = Verdict("failure", reward=0.4), Verdict("success", reward=0.0)
    assert not Judged(trajectory, failed, Outcome.COMPLETED, None).success
    assert Judged(trajectory, done, Outcome.COMPLETED, None).success
    assert not Judged(trajectory, done, Outcome.TIMEOUT, None).success
    assert not Judged(trajectory, None, Outcome.COMPLETED, None).success


async def test_a_held_out_rate_counts_what_the_judge_calls_success(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", config_toml="", plugins={}, metadata={})
    verdicts = iter([Verdict("failure", reward=0.4), Verdict("success", reward=1.0)])
    names = iter("AB")

    class Rollouts:
        def ids(self):
            return next(names) * 26

        async def play(self, domain, task, key, *, temperature):
            return Trajectory(key.id, "", 0, 0, task, Outcome.COMPLETED)

        async def judge(self, domain, trajectory):
            return Judged(trajectory, next(verdicts), Outcome.COMPLETED, None)

    tasks = {"web": [Task(name, "goal", "web", "test") for name in "ab"]}
    found = await held_out(Rollouts(), directory, tasks, step=0, label="before")
    assert found["web"].rate == 0.5
    directory.close()
