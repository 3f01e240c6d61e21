"""The three stories, told as their pages tell them: every command, pasted into an empty directory.

A story that cannot be told with the page alone is red here. The time each took is printed; pages
say the time on the machine that they name.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import time

import pytest

pytestmark = pytest.mark.runs

PATIENCE = 1200
"""Seconds: a story takes a minute or two, and many times that where other jobs keep the cores."""


def tell(story, user, blocks_of, folder, record_property):
    """Paste all commands of a page, in order, into a shell in an empty folder."""
    folder.mkdir()
    commands = [block.text for block in blocks_of(story) if block.language == "sh"]
    assert commands
    begin, used = time.monotonic(), processor_seconds()
    done = user.run("\n".join(commands), cwd=folder, timeout=PATIENCE)
    seconds, used = time.monotonic() - begin, processor_seconds() - used
    assert done.returncode == 0, done.stdout[-6000:]
    written = [path.read_text() for path in folder.glob("*/*/*.py")]
    for block in blocks_of(story):
        shown = block.language == "python"
        assert not shown or any(block.text in text for text in written), block.place
    count = sum(line.startswith(("mintact ", "pip ")) for line in "\n".join(commands).splitlines())
    took = f"{count} commands, {seconds:.0f} s, {used:.0f} of a core"
    record_property("note", f"docs: {story}: {took}")
    return done.stdout


def processor_seconds():
    """What all child processes that have ended took of a core."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def rows(run, sql):
    connection = sqlite3.connect(f"file:{run}/run.db?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def judges(run):
    verdicts = rows(run, "select verdict_json from trajectories where verdict_json is not null")
    return {json.loads(verdict)["judge"] for (verdict,) in verdicts}


@pytest.mark.timeout(PATIENCE + 300)
def test_a_third_partys_environment_is_trained_on_by_its_name(
    user, blocks_of, tmp_path, record_property
):
    output = tell("stories/environment.md", user, blocks_of, tmp_path / "empty", record_property)
    run = tmp_path / "empty" / "runs" / "maze"
    provides = dict(rows(run, "select distribution, provides from plugins"))
    assert "environments:acme/maze" in provides["acme-maze"]
    assert {task for (task,) in rows(run, "select domain from tasks")} == {"tools"}
    assert rows(run, "select count(*) from steps where done_at is not null")[0][0] >= 2
    assert "✗" not in output


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE + 300)
def test_one_line_swaps_the_judge(user, blocks_of, tmp_path, record_property):
    tell("stories/judge.md", user, blocks_of, tmp_path / "empty", record_property)
    runs = tmp_path / "empty" / "runs"
    assert judges(runs / "first") == {"state"}
    assert judges(runs / "second") == {"acme/brief"}


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE + 300)
def test_a_new_loss_trains_and_reports_its_metric(user, blocks_of, tmp_path, record_property):
    output = tell("stories/loss.md", user, blocks_of, tmp_path / "empty", record_property)
    run = tmp_path / "empty" / "runs" / "cispo"
    steps = rows(run, "select metrics_json from steps where done_at is not null")
    assert steps
    for (metrics,) in steps:
        assert "train/clipped" in json.loads(metrics)
    assert "acme/cispo" in output
