"""Bad input gives one clear line and exit code 2, and nothing is lost."""

from __future__ import annotations

import sqlite3

import pytest

CASES = {
    "an unknown key": ({"rollout__temprature": 1.0}, "did you mean 'temperature'"),
    "a wrong type": ({"trainer__steps": "many"}, "trainer.steps"),
    "a missing model": ({"model__path": "nowhere"}, "nowhere"),
    "an unknown environment": ({"domains__mobile__environment": "micro/mobil"}, "micro/mobile"),
    "an unknown parameter": ({"domains__mobile__params": {"iconz": 3}}, "icons"),
    "an unknown judge": ({"domains__mobile__judge": "stat"}, "did you mean 'state'"),
    "where an unknown judge stands": (
        {"domains__mobile__judge": "stat"},
        "domains.mobile.judge: no judge",
    ),
    "a judge that is none": (
        {"domains__mobile__judge": "stand_ins:takes_one"},
        "domains.mobile.judge: judge 'stand_ins:takes_one' cannot be called with (task,",
    ),
    "an unknown preset": ({"objective__preset": "mintakt"}, "mintact"),
    "an unknown split": ({"domains__mobile__tasks": "micro/mobile:tarin"}, "split"),
    "an unknown loss": ({"objective__objective": "mintakt"}, "did you mean 'mintact'"),
    "no quota at all": ({"domains__mobile__quota": 0}, "quota"),
    "an impossible group": ({"rollout__min_live": 9}, "min_live"),
    "an impossible beta": ({"trainer__betas": [2, 3]}, "trainer.betas"),
    "a seed too large": ({"seed": 2**40}, "seed"),
    "a push the engine lacks": (
        {"rollout__engine": "stand_ins:OnlyDrains", "sync__mode": "retract"},
        "it can: drain",
    ),
    "a parameter of the loss": (
        {"objective__params": {"clip_lo": 1}},
        "unknown parameter 'clip_lo'",
    ),
    "a parameter of a part": (
        {"objective__normaliser": {"name": "token_mean", "params": {"x": 1}}},
        "normaliser 'token_mean': unknown parameter 'x'",
    ),
    "a loss that is none": (
        {"objective__objective": "stand_ins:CONSTANT"},
        "objective 'stand_ins:CONSTANT': its parameters cannot be read",
    ),
    "a judge that is a number": (
        {"domains__mobile__judge": "stand_ins:CONSTANT"},
        "domains.mobile.judge: ",
    ),
    "a mixture that is none": (
        {"schedule__mixture": "stand_ins:takes_nothing"},
        "mixture 'stand_ins:takes_nothing': cannot be made",
    ),
    "an engine that needs more": (
        {"rollout__engine": "stand_ins:takes_one"},
        "rollout_engine 'stand_ins:takes_one': cannot be made",
    ),
    "an action space that needs more": (
        {"domains__mobile__action_space": "stand_ins:takes_one"},
        "action_space 'stand_ins:takes_one': cannot be made",
    ),
    "a chat format that is none": (
        {"model__chat": "stand_ins:takes_nothing"},
        "chat format 'stand_ins:takes_nothing': cannot be made",
    ),
    "checkpoints never": ({"trainer__checkpoint_every": 0}, "trainer.checkpoint_every"),
    "a missing plugin": ({"required_plugins": ["mintact-env-desktop>=0.2"]}, "pip install"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_line_and_exit_code_two(mintact, case, capsys):
    overrides, expected = CASES[case]
    assert mintact.here("train", mintact.run_file(**overrides)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert expected in said.err
    assert not mintact.run.exists()


@pytest.mark.parametrize("case", ["an unknown key", "an unknown judge"])
def test_a_process_of_its_own_says_and_leaves_no_more(mintact, case):
    overrides, expected = CASES[case]
    output = mintact("train", mintact.run_file(**overrides), code=2)
    assert len(output.strip().splitlines()) == 1
    assert expected in output
    assert not mintact.run.exists()


def test_a_missing_run_file_and_a_missing_run(mintact):
    assert "no such run file" in mintact("train", "absent.toml", code=2)
    assert len(mintact("check", "absent", code=2).strip().splitlines()) == 1


def test_without_a_browser_a_web_domain_is_refused_with_what_to_install(mintact):
    path = mintact.run_file("web")
    output = mintact("train", path, code=2, PATH="/usr/bin/nowhere", MINTACT_CHROMIUM="/nowhere")
    assert len(output.strip().splitlines()) == 1
    assert "chromium-headless-shell" in output
    assert not mintact.run.exists()


@pytest.mark.runs
def test_a_newer_database_and_a_corrupt_checkpoint_are_refused_untouched(mintact):
    path = mintact.run_file(trainer__steps=1)
    mintact("train", path)
    weights = max(
        (mintact.run / "checkpoints" / "1").glob("*.safetensors"), key=lambda f: f.stat().st_size
    )
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-4] + b"\0\1\2\3")
    output = mintact("train", path, "--resume", "trainer.steps=2", code=2)
    assert "checkpoint" in output.strip().splitlines()[-1]
    weights.write_bytes(sound)
    with sqlite3.connect(mintact.run / "run.db") as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    output = mintact("train", path, "--resume", "trainer.steps=2", code=2)
    assert len(output.strip().splitlines()) == 1
    with sqlite3.connect(mintact.run / "run.db") as connection:
        connection.execute("pragma user_version = 1")
    connection.close()
    mintact("train", path, "--resume", "trainer.steps=2")
    assert len(mintact.rows("select * from steps")) == 2


@pytest.mark.runs
def test_a_run_without_any_verdict_ends_with_the_judges_fault(mintact):
    path = mintact.run_file(domains__mobile__judge="stand_ins:returns_a_number")
    output = mintact("train", path, code=1)
    assert "domains.mobile.judge: " in output
    assert "not one verdict, the last: " in output
    assert "returned int, not a Verdict" in output
