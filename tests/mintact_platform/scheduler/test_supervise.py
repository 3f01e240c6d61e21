"""A supervised stage that was cut short goes on where it stopped."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError, StorageError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.beginning import begin

DATA = "sft.data=[{name='stand_ins:held'}]"
STAGE = {
    "steps": 11,
    "batch": 4,
    "lr": 3e-3,
    "checkpoint_every": 4,
    "action_spaces": {"mobile_use": {"prompt": "short"}},
}


@pytest.fixture
def stage(mintact, untrained):
    """Write the run file of a short stage that can be held up; the words that name it."""
    mintact.model = untrained

    def write(**sft):
        sections = {"domains__mobile__judge": "state", "sft": {**STAGE, **sft}}
        path = mintact.run_file("mobile", **sections)
        # a domain of the run need not be called like that of its tasks
        path.write_text(path.read_text().replace("domains.mobile", "domains.phone"))
        return path, DATA

    return write


def losses(mintact):
    return [r["value"] for r in mintact.rows("select value from metrics where name = 'sft/loss'")]


def weights(path):
    return (path / "model" / "model.safetensors").read_bytes()


def test_after_a_kill_it_ends_in_the_weights_of_one_that_ran_through(mintact, stage):
    words = stage()
    # opened on trial first, then for each step
    process = mintact.start("sft", *words, HELD_AT="8")
    mintact.until(lambda: len(losses(mintact)) == 6, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert mintact.gone(), mintact.survivors()

    # a damaged checkpoint is passed over
    newer = shutil.copytree(mintact.run / "checkpoints" / "4", mintact.run / "checkpoints" / "5")
    manifest, damaged = newer / "manifest.json", newer / "weights.safetensors"
    manifest.write_text(manifest.read_text().replace('"step": 4', '"step": 5'))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    again = mintact("sft", *words, "--resume")
    assert "checkpoint 5 is passed over: the bytes of weights.safetensors changed" in again
    assert "goes on after step 4" in again
    assert len(losses(mintact)) == 11, "each step's loss stands once"
    assert list((mintact.run / "supervised").iterdir()) == []
    assert "step 11 of 11, weights v0" in mintact("show", "run")
    mintact("sft", *words, "name=through")
    assert weights(mintact.run) == weights(mintact.run.with_name("through"))


def test_of_a_gate_only_what_is_missing_is_played(mintact, stage):
    words = stage(steps=2, gate=1.0, gate_episodes=2, gate_steps=2, gate_rounds=1)
    mintact("sft", *words, code=1)
    before = mintact.rows("select id, step from evaluations")
    assert [row["step"] for row in before] == [2, 2, 4, 4]

    first = weights(mintact.run)
    shutil.rmtree(mintact.run / "model")
    told = mintact("sft", *words, "--resume", "sft.gate_episodes=3", code=1)
    assert "goes on after step 4" in told
    assert told.count("gate: greedy success phone 0 %") == 1
    after = mintact.rows("select id, step from evaluations")
    assert [row["step"] for row in after] == [2, 2, 4, 4, 4]
    assert after[:4] == before
    assert weights(mintact.run) == first


@pytest.mark.parametrize(
    ("verb", "changed", "refusal"),
    [
        ("train", {}, "the run was begun by mintact sft, not train"),
        ("sft", {"lr": 1e-3}, r"the run was started with another sft\.lr"),
        ("sft", {"gate": 0.5, "gate_rounds": 9}, None),
    ],
)
def test_it_is_gone_on_with_by_its_own_verb_and_settings(tmp_path, verb, changed, refusal):
    def opened(verb, *, resume, **sft):
        config = parse({"name": "run", "model": {"path": "tiny"}, "sft": sft}, where="here")
        options = {"verb": verb, "resume": resume, "accept_changed": False, "say": print}
        begin(config, tmp_path, Registry.discover(), **options).close()
        return config

    begun = opened("sft", resume=False)
    written = tmp_path / "run" / "config.toml"
    before = written.read_text()
    if refusal:
        with pytest.raises(ConfigurationError, match=refusal):
            opened(verb, resume=True, **changed)
        assert written.read_text() == before
    else:
        assert opened(verb, resume=True, **changed).sft != begun.sft
        assert "gate_rounds = 9" in written.read_text()


@pytest.mark.parametrize(("name", "text"), [("config.toml", "name="), ("plugins.json", "{")])
def test_records_that_cannot_be_read_are_named_in_one_line(tmp_path, name, text):
    config = parse({"name": "run", "model": {"path": "tiny"}}, where="here")
    options = {"verb": "sft", "accept_changed": False, "say": print}
    begin(config, tmp_path, Registry.discover(), resume=False, **options).close()
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(StorageError, match=rf"run/{name}: cannot be read \(") as caught:
        begin(config, tmp_path, Registry.discover(), resume=True, **options)
    assert "\n" not in str(caught.value)
