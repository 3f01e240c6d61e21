"""The verbs that read: plugins, objectives, tasks, doctor, and show/check/report of a real run."""

from __future__ import annotations

import json

import pytest

from mintact_platform.cli.main import main
from mintact_platform.config import dump, parse
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

ulid = UlidSource()


RUN = {
    "name": "first",
    "domains": {
        "mobile": {
            "environment": "micro/mobile",
            "tasks": "micro/mobile:train",
            "judge": {"name": "acme/strict"},
        }
    },
}


@pytest.fixture
def run(tmp_path):
    """One finished group of one rollout, queued."""
    directory = RunDirectory.create(
        tmp_path / "runs" / "first", config_toml=dump(parse(RUN)), plugins={},
        metadata={},
    )  # fmt: skip
    task, group = Task("t-1", "open mail", "mobile"), ulid()
    call = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [3, 4]}}
    turn = Turn(0, "a screen", (), "tap it", (call,), (call,))
    trajectory = Trajectory(ulid(), group, 0, 0, task, Outcome.COMPLETED, turns=(turn,))
    path = directory.trajectories.save(trajectory)
    directory.database.submit(
        ledger.open_group(group, task, "mobile", 1.0),
        ledger.add_trajectory(trajectory, path),
        ledger.set_verdict(trajectory.id, Verdict("success", 1.0, reason="mail is open"), 1.0),
        ledger.close_group(group, "queued", "", 0, 2.0),
    ).result()
    directory.close()
    return directory.path, trajectory


def test_show_summarises_a_run(run, capsys):
    path, _ = run
    assert main(["show", "first", "--runs", str(path.parent)]) == 0
    text = capsys.readouterr().out
    assert "step 0 of 200" in text
    assert "objective: mintact" in text
    assert "acme/strict" in text
    assert "mobile: produced 1 = trained 0" in text
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ledger"]["mobile"]["queued"] == 1


def test_show_reads_a_trajectory_by_the_beginning_of_its_id(run, capsys):
    path, trajectory = run
    assert main(["show", str(path), trajectory.id[:20].lower()]) == 0
    text = capsys.readouterr().out
    for words in ("goal: open mail", "sees:  a screen", "does:  click (3, 4)", "mail is open"):
        assert words in text
    assert main(["show", str(path), trajectory.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["label"] == "success"
    assert main(["show", str(path), "ZZZ"]) == 2
    assert trajectory.id in capsys.readouterr().err


def test_check_proves_the_ledger_and_finds_what_is_missing(run, capsys):
    path, trajectory = run
    assert main(["check", str(path)]) == 0
    assert "queued 1 + open 0 ✓" in capsys.readouterr().out
    next((path / "trajectories").rglob("*.safetensors")).unlink()
    assert main(["check", str(path)]) == 1
    assert f"mintact: trajectory {trajectory.id}: no such trajectory" in capsys.readouterr().err
    assert main(["check", str(path), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 1


def test_report_writes_two_files_and_says_where(run, capsys):
    path, _ = run
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.split() == [str(path / "report.html"), str(path / "curve.svg")]


def test_a_newer_database_is_one_line_and_exit_code_2(run, capsys):
    import sqlite3

    path, _ = run
    connection = sqlite3.connect(path / "run.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert main(["show", str(path)]) == 2
    assert "format 99 is newer than this platform's" in capsys.readouterr().err


def test_plugins_lists_the_first_party_distributions(capsys):
    assert main(["plugins"]) == 0
    text = capsys.readouterr().out
    for name in ("mintact-env-micro", "micro/web", "mintact-reward-state", "mintact-plugin-torch"):
        assert name in text
    assert main(["plugins", "--json"]) == 0
    assert {row["error"] for row in json.loads(capsys.readouterr().out)} == {None}


def test_objectives_lists_presets_and_losses_with_their_parameters(capsys):
    assert main(["objectives", "--json"]) == 0
    rows = {(row["kind"], row["name"]): row for row in json.loads(capsys.readouterr().out)}
    assert "clip_low=" in rows["objective", "mintact"]["params"]
    assert ("preset", "mintact") in rows
    assert main(["objectives"]) == 0
    assert "mintact-algorithm-grpo" in capsys.readouterr().out


def test_tasks_counts_splits_lists_tasks_and_templates(capsys):
    assert main(["tasks", "micro/mobile"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["split", "tasks", "templates"]
    assert {row[0] for row in rows[1:]} == {"train", "validation", "test"}
    assert main(["tasks", "micro/mobile", "--split", "test", "--limit", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["tasks", "micro/mobile", "--templates"]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["tasks", "gym/gymnasium.envs.classic_control:CartPole-v1"]) == 0
    assert "train" in capsys.readouterr().out
    assert main(["tasks"]) == 0
    assert "micro/web  (mintact-env-micro)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gym/Nope-v1"], "no gymnasium environment 'Nope-v1'"),
        (["gym/CartPol-v1", "--json"], "did you mean 'CartPole-v1'"),
        (["micro/web:train"], "'micro/web:train' names a split too; mintact tasks micro/web --spl"),
        (["my_sets:small:test"], "names a split too; mintact tasks my_sets:small --split test"),
        (["micro/wbe"], "did you mean 'micro/web'"),
        (["micro/web", "--limit", "-1"], "--limit: must be a whole number of at least 1, got '-1'"),
        (["micro/web", "--limit", "many"], "--limit: must be a whole number of at least 1"),
        (["builtins:print"], "task set 'builtins:print': its parameters cannot be read"),
    ],
)
def test_tasks_of_what_is_not_there_are_one_line(words, said, capsys):
    assert main(["tasks", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not captured.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["play", "micro/web", "--max-turns", "0"], "--max-turns: must be a whole number of at"),
        (
            ["play", "micro/web", "--port", "65536"],
            "--port: must be a whole number from 0 to 65535",
        ),
        (["play", "micro/web", "--seed", "-1"], "--seed: must be a whole number of at least 0"),
        (["play", "micro/web", "--tasks", "micro/web:trian"], "did you mean 'micro/web:train'"),
        (["serve", "micro/web", "--port", "x"], "--port: must be a whole number from 0 to 65535"),
        (["serve", "micro/web", "--capacity", "0"], "--capacity: must be a whole number of at"),
        (["serve", "micro/web", "--spares", "-1"], "--spares: must be a whole number of at least"),
        (
            ["objectives", "nowhere_at_all:loss"],
            "objective 'nowhere_at_all:loss' of nowhere_at_all",
        ),
        (["objectives", "operator:add"], "objective 'operator:add': its parameters cannot be read"),
    ],
)
def test_a_flag_out_of_bounds_or_a_name_of_nothing_is_one_line(words, said, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1


def test_doctor_says_what_is_there_and_what_to_install(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "✓ python" in text
    assert main(["doctor", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert all(check["next"] for check in checks if not check["found"] and check["name"] != "x")


def test_a_run_ends_with_ledger_and_paths_on_standard_output(run, capsys):
    from argparse import Namespace

    from mintact_platform.cli.run_files import run_with_display

    path, _ = run

    async def job(config, registry, display):
        display.message("working")
        return 1

    words = {"run_file": path / "config.toml", "overrides": [], "runs": path.parent}
    assert run_with_display(Namespace(**words, quiet=False, json=False), job) == 1
    captured = capsys.readouterr()
    assert captured.err == "working\n"
    assert "mobile: produced 1 = " in captured.out
    assert f"report: {path / 'report.html'}" in captured.out
    assert run_with_display(Namespace(**words, quiet=True, json=True), job) == 1
    captured = capsys.readouterr()
    assert not captured.err
    assert json.loads(captured.out)["ledger"]["mobile"]["queued"] == 1
