import json
import sqlite3

import pytest

from mintact_platform.errors import StorageError
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.loader import PluginRow
from mintact_platform.storage import ledger as L
from mintact_platform.storage.operations import TRANSITIONS

WAYS = {
    "open": [],
    "queued": ["queued"],
    "filtered": ["filtered"],
    "dropped": ["dropped"],
    "cancelled": ["cancelled"],
    "batched": ["queued", "batched"],
    "evicted": ["queued", "evicted"],
    "stale": ["queued", "stale"],
    "trained": ["queued", "batched", "trained"],
}


def step(number, groups, **mix):
    return L.begin_step(number, groups, 0, mix, seed=number, config_hash="c0ffee")


@pytest.mark.parametrize("fate", WAYS)
@pytest.mark.parametrize("following", WAYS)
async def test_only_the_allowed_changes_of_fate_are_made(directory, fate, following):
    database = directory.database
    await database.write(L.open_group("g", "t", "web", 0.0))
    for way in WAYS[fate]:
        await database.write(L.set_fate(["g"], way))
    if following in TRANSITIONS.get(fate, ()):
        await database.write(L.set_fate(["g"], following))
    else:
        with pytest.raises(StorageError, match=f"is {fate}, it cannot become {following}"):
            await database.write(L.set_fate(["g"], following))


async def test_a_group_goes_from_task_to_trained(directory, make):
    database, task = directory.database, make.task()
    trajectory = make.trajectory("01A", "g1")
    path = directory.trajectories.save(trajectory)
    verdict = Verdict("success", 1.0, judge="state")
    await database.write(L.open_group("g1", task, "web", 10.0), L.open_group("g2", task, "web", 11))
    await database.write(L.add_trajectory(trajectory, path))
    await database.write(L.set_verdict("01A", verdict, 1.0))
    await database.write(L.close_group("g1", "queued", "", 2, 20.0))
    await database.write(L.close_group("g2", "filtered", "uniform reward 0", None, 21.0))
    await database.write(step(1, ["g1"], web=1))
    assert str(L.ledger(database)["web"]) == (
        "produced 2 = trained 0 + batched 1 + filtered 1 + stale 0 + evicted 0 + dropped 0"
        " + cancelled 0 + queued 0 + open 0 ✓"
    )
    await database.write(L.finish_step(1, {"train/loss": {"": 0.5}}, at=30.0))
    assert L.ledger(database)["web"].trained == 1
    assert L.check(database, directory.path) == []
    row = dict(database.read("SELECT * FROM trajectories")[0])
    assert (row["first_version"], row["last_version"], row["tokens"]) == (2, 3, 2)
    assert directory.path / row["path"] == path
    assert Verdict.from_json(json.loads(row["verdict_json"])) == verdict
    assert len(database.read("SELECT * FROM tasks")) == 1
    group = dict(database.read("SELECT * FROM groups WHERE id = 'g2'")[0])
    assert (group["reason"], group["closed_at"]) == ("uniform reward 0", 21.0)


async def test_a_step_that_cannot_be_recorded_leaves_all_its_groups_queued(directory):
    database = directory.database
    for id in ("a", "b"):
        await database.write(L.open_group(id, "t", "web", 0.0))
    await database.write(L.close_group("a", "queued"))
    with pytest.raises(StorageError, match="group 'b' is open"):
        await database.write(step(1, ["a", "b"], web=2))
    row = L.ledger(database)["web"]
    assert (row.queued, row.open, row.batched) == (1, 1, 0)
    assert database.read("SELECT * FROM steps") == []


async def test_a_step_is_recorded_once_and_a_replay_changes_nothing(directory):
    database = directory.database
    await database.write(L.open_group("a", "t", "web", 0), L.close_group("a", "queued"))
    await database.write(step(1, ["a"], web=1))
    with pytest.raises(StorageError, match="step 1 is already recorded"):
        await database.write(step(1, [], web=0))
    await database.write(L.finish_step(1, {"x": {"": 1.0}}, at=5.0))
    await database.write(L.finish_step(1, {"x": {"": 2.0}}, at=6.0))
    row = database.read("SELECT * FROM steps")[0]
    assert (json.loads(row["metrics_json"]), row["done_at"]) == ({"x": {"": 1.0}}, 5.0)
    with pytest.raises(StorageError, match="step 2 is not recorded"):
        await database.write(L.finish_step(2, {}))


async def test_a_failed_judge_masks_the_rollout(directory, make):
    database, trajectory = directory.database, make.trajectory("01A", "g1")
    await database.write(
        L.open_group("g1", "t", "web", 0.0),
        L.add_trajectory(trajectory, directory.trajectories.save(trajectory)),
    )
    failure = Failure("judge", "timeout", "no answer")
    await database.write(
        L.set_verdict("01A", None, None, outcome=Outcome.JUDGE_FAILURE, failure=failure)
    )
    row = database.read("SELECT * FROM trajectories")[0]
    assert (row["outcome"], row["phase"], row["reward"]) == ("judge_failure", "judge", None)
    assert Failure.from_json(json.loads(row["failure_json"])) == failure
    with pytest.raises(StorageError, match="no trajectory '01Z'"):
        await database.write(L.set_verdict("01Z", None, None))


async def test_a_trajectory_needs_its_group(directory, make):
    trajectory = make.trajectory("01A", "nowhere")
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        await directory.database.write(
            L.add_trajectory(trajectory, directory.trajectories.save(trajectory))
        )


async def test_held_out_episodes_are_outside_the_ledger(directory, make):
    trajectory = make.trajectory("01A")
    path = directory.trajectories.save(trajectory)
    await directory.database.write(
        L.add_evaluation(trajectory, path, step=0, label="before", reward=1.0)
    )
    assert L.ledger(directory.database) == {}
    row = dict(directory.database.read("SELECT * FROM evaluations")[0])
    assert (row["domain"], row["label"], row["turns"]) == ("web", "before", 1)
    path.unlink()
    assert L.check(directory.database, directory.path) == [
        f"trajectory 01A: no such trajectory at {row['path']}"
    ]


async def test_pushes_metrics_plugins_and_meta_are_kept(directory):
    database = directory.database
    await database.write(
        L.push(1, 4, 0.5, False),
        L.push(1, 5, 0.7, True),
        L.metric("train/loss", "", 0.25, 3.0),
        L.set_meta("k", "v"),
        L.plugin_rows([PluginRow("old", "1", "x")]),
    )
    rows = [PluginRow("acme", "1.2", "acme", provides=("acme/grid",), error="no module 'b'")]
    await database.write(L.plugin_rows(rows))
    assert [tuple(r) for r in database.read("SELECT * FROM pushes")] == [
        (1, 4, 0.5, 0),
        (1, 5, 0.7, 1),
    ]
    assert tuple(database.read("SELECT * FROM metrics")[0]) == (3.0, "train/loss", "", 0.25)
    assert [tuple(r) for r in database.read("SELECT * FROM plugins")] == [
        ("acme", "1.2", '["acme/grid"]', "no module 'b'")
    ]
    assert L.get_meta(database, "k") == "v"
    assert L.get_meta(database, "none", "default") == "default"


TAMPERING = {
    "UPDATE groups SET fate = 'lost' WHERE id = 'q'": "unknown fate 'lost'",
    "UPDATE groups SET fate = 'queued' WHERE id = 'a'": "group a of step 1 is queued, not trained",
    "UPDATE groups SET fate = 'trained' WHERE id = 'q'": "group q is trained but in no step",
    "DELETE FROM groups WHERE id = 'a'": "step 1 holds group a, which does not exist",
    "UPDATE steps SET step = 3 WHERE step = 2": "step 3 follows step 1",
    """UPDATE steps SET groups_json = '["a","b"]'""": "group a is in step 1 and in step 2",
    """UPDATE steps SET realised_json = '{"web": 7}'""": "records the mix {'web': 7}",
    "UPDATE steps SET done_at = NULL WHERE step = 1": "group a of step 1 is trained, not batched",
}


@pytest.mark.parametrize("change", TAMPERING)
async def test_the_check_finds_whatever_is_wrong(directory, change):
    database = directory.database
    for id in ("a", "b", "q"):
        await database.write(L.open_group(id, "t", "web", 0.0), L.close_group(id, "queued"))
    await database.write(step(1, ["a"], web=1), L.finish_step(1, {}))
    await database.write(step(2, ["b"], web=1))
    assert L.check(database) == []
    with sqlite3.connect(database.path, timeout=30) as connection:
        connection.execute(change)
    connection.close()
    assert TAMPERING[change] in "\n".join(L.check(database))


async def test_the_check_looks_for_files_and_images(directory, make):
    trajectory = make.trajectory("01A", "g1")
    path = directory.trajectories.save(trajectory)
    await directory.database.write(
        L.open_group("g1", "t", "web", 0), L.add_trajectory(trajectory, path)
    )
    image = next(directory.path.glob("images/*/*.png"))
    image.rename(image.with_suffix(".lost"))
    digest = next(iter(trajectory.image_extensions))
    assert L.check(directory.database, directory.path) == [f"trajectory 01A: no image {digest}.png"]
