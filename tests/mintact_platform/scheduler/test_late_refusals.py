"""What is wrong and shows only in a run: one line that says whose fault it is."""

from __future__ import annotations

import sqlite3

import pytest

pytestmark = pytest.mark.runs


def test_a_newer_database_is_refused_untouched_and_a_corrupt_checkpoint_is_passed_over(
    mintact, same_as_recomputed
):
    path = mintact.run_file(trainer__steps=1)
    mintact("train", path)
    with sqlite3.connect(mintact.run / "run.db") as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    output = mintact("train", path, "--resume", "trainer.steps=2", code=2)
    assert len(output.strip().splitlines()) == 1
    with sqlite3.connect(mintact.run / "run.db") as connection:
        connection.execute("pragma user_version = 1")
    connection.close()

    weights = max(
        (mintact.run / "checkpoints" / "1").glob("*.safetensors"), key=lambda f: f.stat().st_size
    )
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\1\2\3")
    output = mintact("train", path, "--resume", "trainer.steps=2")
    assert "checkpoint 1 is passed over: the bytes of " in output
    assert "replayed step 1" in output
    assert len(mintact.rows("select * from steps")) == 2
    assert same_as_recomputed(path, 2)


def test_a_run_without_any_verdict_ends_with_the_judges_fault(mintact):
    path = mintact.run_file(domains__mobile__judge="stand_ins:returns_a_number")
    output = mintact("train", path, code=1)
    assert "domains.mobile.judge: " in output
    assert "not one verdict, the last: " in output
    assert "returned int, not a Verdict" in output
