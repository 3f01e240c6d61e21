"""`mintact replay`: both losses on recorded batches, the run untouched."""

from __future__ import annotations

import hashlib
import json

import pytest

from mintact_platform.cli.main import main
from mintact_platform.config import ObjectiveSection
from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.replay import other_section


@pytest.mark.runs
def test_a_replay_repeats_the_run_and_measures_another_loss_beside_it(mintact, monkeypatch, capsys):
    path = mintact.run_file(
        "mobile", "desktop", sync__every=2, trainer__steps=3, trainer__updates=2
    )
    mintact("train", path)
    before = contents(mintact.run)

    own = json.loads(mintact("replay", "run", "--json", "--quiet"))
    assert (own["steps"], own["exact"]) == (3, 3)
    assert own["same_weights"] == own["pushes_kept"] == 2
    recorded = [json.loads(r["metrics_json"]) for r in mintact.rows("select * from steps")]
    for line, metrics in zip(lines(mintact, own), recorded, strict=True):
        assert line["own"] == line["other"]
        assert line["cosine"] == {"mobile": 1.0, "desktop": 1.0, "": 1.0}
        assert line["own"]["loss"][""] == line["recorded_loss"] == metrics["train/loss"][""]
    assert contents(mintact.run) == before

    words = ("--preset", "cispo", "--follow", "own", "--from-step", "2", "prox=current")
    other = json.loads(mintact("replay", "run", "--json", "--quiet", *words))
    first, second = lines(mintact, other)
    assert (first["step"], second["step"]) == (2, 3)
    assert first["exact"]
    assert second["exact"]
    assert first["own"] == lines(mintact, own)[1]["own"]
    assert -1 <= first["cosine"][""] < 1
    # only its second update of the step starts from other weights than the one measured
    assert first["followed"]["loss"] == pytest.approx(first["other"]["loss"][""], abs=0.02)
    assert second["followed"]["loss"] != second["other"]["loss"][""]
    page = (mintact.directory / other["page"]).read_text()
    assert "cispo, its own steps" in page
    assert "it cannot say" in page
    facts = json.loads((mintact.directory / other["page"]).with_name("replay.json").read_text())
    assert facts["other"]["preset"] == "cispo"
    assert facts["other"]["prox"] == "current"
    assert contents(mintact.run) == before

    monkeypatch.chdir(mintact.directory)
    for wrong, expected in (
        (("--preset", "cispi"), "cispo"),
        (("--from-step", "9"), "steps 1 to 3"),
        (("--objective", "cispo", "params.clip_hi=1"), "clip_high"),
        (("--steps", "0"), "at least 1"),
    ):
        assert main(["replay", "run", *wrong]) == 2
        told = capsys.readouterr().err
        assert len(told.strip().splitlines()) == 1
        assert expected in told


def contents(run):
    """A hash of every file that is no replay's; readers may leave SQLite's shared memory."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.is_file() and "replays" not in path.parts and "-shm" not in path.name
    }


def lines(mintact, summary):
    text = (mintact.directory / summary["lines"]).read_text()
    return [json.loads(line) for line in text.splitlines()]


OWN = ObjectiveSection(
    preset="mintact", length_cap=64, prox="current", correction={"name": "none", "params": {}}
)


def test_a_preset_brings_all_its_parts_and_an_objective_only_itself():
    preset = other_section(OWN, objective=None, preset="gspo", overrides=())
    assert (preset.preset, preset.correction) == ("gspo", None)
    assert (preset.length_cap, preset.prox) == (64, "current")
    objective = other_section(OWN, objective="acme/cispo", preset=None, overrides=())
    assert objective.objective is not None
    assert objective.objective.name == "acme/cispo"
    assert objective.correction == OWN.correction


@pytest.mark.parametrize("key", ["params.clip_high", "objective.params.clip_high"])
def test_overrides_are_keys_of_the_section_as_the_run_file_writes_them(key):
    other = other_section(OWN, objective=None, preset="cispo", overrides=[f"{key}=4"])
    assert other.params == {"clip_high": 4}


@pytest.mark.parametrize("word", ["prx=current", "prox=now", "trainer.lr=1"])
def test_a_wrong_override_is_refused(word):
    with pytest.raises(ConfigurationError):
        other_section(OWN, objective=None, preset=None, overrides=[word])
