"""A run stops at `evaluation.stop_at`, whichever process saw it come."""

from __future__ import annotations

from contextlib import closing

from mintact_platform.storage.directory import RunDirectory

CHECKS = {"every": 1, "progress_episodes": 2, "episodes": 0, "stop_at": 0.0}


def steps(mintact):
    return [row["step"] for row in mintact.rows("select step from steps where done_at")]


def checks(mintact):
    return mintact.rows("select id, step from evaluations order by step, rowid")


def test_a_run_at_its_goal_stays_there_when_it_is_resumed(mintact):
    path = mintact.run_file("mobile", trainer__steps=5, evaluation=CHECKS)
    path.write_text(path.read_text().replace("domains.mobile", "domains.phone"))
    mintact("train", path)
    assert steps(mintact) == [1, 2], "two checks in a row reach it"
    before = checks(mintact)
    assert [row["step"] for row in before] == [1, 1, 2, 2]

    # as after a kill during the second check
    with closing(RunDirectory.open(mintact.run, writable=True)) as directory:
        lost = before[-1]["id"]
        directory.database.submit(
            lambda connection: connection.execute("delete from evaluations where id = ?", (lost,))
        )
    assert "evaluation.stop_at is reached since step 2" in mintact("train", path, "--resume")
    assert steps(mintact) == [1, 2]
    after = checks(mintact)
    assert [row["step"] for row in after] == [1, 1, 2, 2]
    assert after[:3] == before[:3]

    mintact("train", path, "--resume", "evaluation.every=0", "trainer.steps=3")
    assert steps(mintact) == [1, 2, 3]
