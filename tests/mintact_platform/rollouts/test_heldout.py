"""An evaluation that was cut short goes on with the tasks it has not recorded."""

from __future__ import annotations

from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.rollouts.heldout import missing_tasks
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
