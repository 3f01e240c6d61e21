"""The three stories, told as their pages tell them: every command, pasted into an empty directory.

A story that cannot be told with the page alone is red here. The time each took is printed; pages
say the time on the machine that they name.
"""

from __future__ import annotations

import json
import sqlite3
import time

import pytest

LIMIT = 300
"""Seconds a story may take: five minutes."""


def tell(story, user, blocks_of, folder, record_property):
    """Paste all commands of a page, in order, into a shell in an empty folder."""
    folder.mkdir()
    commands = [block.text for block in blocks_of(story) if block.language == "sh"]
    assert commands
    begin = time.monotonic()
    done = user.run("\n".join(commands), cwd=folder, timeout=LIMIT)
    seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stdout[-6000:]
    count = sum(line.startswith(("mintact ", "pip ")) for line in "\n".join(commands).splitlines())
    record_property("note", f"docs: {story}: {count} commands, {seconds:.0f} s")
    return done.stdout


def rows(run, sql):
    connection = sqlite3.connect(f"file:{run}/run.db?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def judges(run):
    verdicts = rows(run, "select verdict_json from trajectories where verdict_json is not null")
    return {json.loads(verdict)["judge"] for (verdict,) in verdicts}


@pytest.mark.timeout(LIMIT + 120)
def test_a_third_partys_environment_is_trained_on_by_its_name(
    user, blocks_of, tmp_path, record_property
):
    output = tell("stories/environment.md", user, blocks_of, tmp_path / "empty", record_property)
    run = tmp_path / "empty" / "runs" / "counter"
    provides = dict(rows(run, "select distribution, provides from plugins"))
    assert "environments:acme/counter" in provides["acme-counter"]
    assert {task for (task,) in rows(run, "select domain from tasks")} == {"mobile"}
    assert rows(run, "select count(*) from steps where done_at is not null")[0][0] >= 2
    assert "✗" not in output


@pytest.mark.slow
@pytest.mark.timeout(LIMIT + 120)
def test_one_line_swaps_the_judge(user, blocks_of, tmp_path, record_property):
    tell("stories/judge.md", user, blocks_of, tmp_path / "empty", record_property)
    runs = tmp_path / "empty" / "runs"
    assert judges(runs / "first") == {"state"}
    assert judges(runs / "second") == {"acme/brief"}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT + 120)
def test_a_new_loss_trains_and_reports_its_metric(user, blocks_of, tmp_path, record_property):
    output = tell("stories/loss.md", user, blocks_of, tmp_path / "empty", record_property)
    run = tmp_path / "empty" / "runs" / "cispo"
    steps = rows(run, "select metrics_json from steps where done_at is not null")
    assert steps
    for (metrics,) in steps:
        assert "train/clipped" in json.loads(metrics)
    assert "acme/cispo" in output
