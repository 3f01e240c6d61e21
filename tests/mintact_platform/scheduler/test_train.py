"""A run from start to end: four domains, exact quotas, artefacts, a ledger that adds up."""

from __future__ import annotations

import json
import math
import shutil

import pytest

chromium = pytest.mark.skipif(
    shutil.which("chromium-headless-shell") is None, reason="needs chromium-headless-shell"
)


@chromium
def test_four_domains_train_with_exact_quotas_and_leave_every_artefact(mintact, ledger_of):
    path = mintact.run_file(
        "mobile",
        "desktop",
        "web",
        "tools",
        domains__mobile__quota=2,
        domains__web__params={"step_seconds": 0.25},
        domains__tools__params={"step_seconds": 0.05},
        evaluation__episodes=2,
    )
    mintact("train", path)
    for row in mintact.rows("select * from steps"):
        realised = json.loads(row["realised_json"])
        assert realised == {"mobile": 2, "desktop": 1, "web": 1, "tools": 1}
        assert row["done_at"] is not None
        assert math.isfinite(json.loads(row["metrics_json"])["train/loss"][""])
    assert len(mintact.rows("select * from steps")) == 3
    assert [r["version"] for r in mintact.rows("select * from pushes where ok")] == [1, 2, 3]
    assert len(mintact.rows("select * from evaluations")) == 2 * 4 * 2
    ledger = ledger_of(mintact("check", "run"))
    assert {domain: row["trained"] for domain, row in ledger.items()} == {
        "mobile": 6,
        "desktop": 3,
        "web": 3,
        "tools": 3,
    }
    assert (mintact.run / "weights" / "3" / "model.safetensors").is_file()
    assert (mintact.run / "config.toml").is_file()
    assert mintact.gone()
    mintact("report", "run")
    assert (mintact.run / "report.html").stat().st_size > 10_000


@pytest.mark.runs
def test_a_starved_domain_does_not_stop_the_run(mintact):
    path = mintact.run_file(
        "mobile",
        "desktop",
        domains__desktop__judge="stand_ins:always",
        schedule__fallback_after=2,
    )
    mintact("train", path)
    mixes = [json.loads(r["realised_json"]) for r in mintact.rows("select * from steps")]
    assert len(mixes) == 3
    assert all(mix.get("mobile") == 2 and not mix.get("desktop") for mix in mixes)


@pytest.mark.runs
def test_an_existing_run_is_refused_and_a_finished_one_resumes_to_more_steps(mintact):
    path = mintact.run_file(trainer__steps=1)
    mintact("train", path)
    before = mintact.rows("select * from steps")
    output = mintact("train", path, code=2)
    assert "--resume" in output
    assert len(output.strip().splitlines()) == 1
    assert mintact.rows("select * from steps") == before
    mintact("train", path, "--resume", "trainer.steps=2")
    assert [r["step"] for r in mintact.rows("select step from steps")] == [1, 2]
    changed = mintact("train", path, "--resume", "trainer.lr=1", code=2)
    assert "trainer.lr" in changed


@pytest.mark.runs
def test_a_synchronous_deterministic_run_repeats_itself_to_the_last_bit(mintact):
    path = mintact.run_file(
        "mobile",
        "desktop",
        schedule__mode="synchronous",
        rollout__deterministic=True,
        rollout__group_size=2,
        rollout__max_new_tokens=12,
        domains__mobile__judge="stand_ins:by_words",
        domains__desktop__judge="stand_ins:by_words",
        trainer__steps=2,
    )
    weights = []
    for name in ("first", "second"):
        mintact("train", path, f"name={name}")
        run = mintact.directory / "runs" / name
        weights.append((run / "weights" / "2" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
