"""The quickstart's run files: a smoke run of every stage, and (slow) the learning bar."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mintact_platform.evaluation.statistics import wilson

pytestmark = pytest.mark.runs

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "docs" / "quickstart"
STAND_INS = ROOT / "tests" / "mintact_platform" / "scheduler" / "modules"
DOMAINS = ("mobile", "desktop", "web", "tools")
chromium = pytest.mark.skipif(
    shutil.which("chromium-headless-shell") is None, reason="needs chromium-headless-shell"
)


def environment(**more):
    bin_directory = str(Path(sys.executable).parent)
    path = os.pathsep.join((bin_directory, os.environ.get("PATH", "")))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, **more}


def call(*words, cwd, timeout, code=0, **environ):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == code, done.stdout[-4000:]
    return done.stdout


def rows(path, sql):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@chromium
def test_every_stage_of_the_quickstart_runs_and_leaves_its_artefacts(tmp_path):
    mintact = (sys.executable, "-m", "mintact_platform.cli.main")
    here = {"cwd": tmp_path, "timeout": 170}
    call(*mintact, "torch", "new-model", "runs/quickstart-0-tiny", "--align-steps", "2", **here)
    call(*mintact, "sft", QUICKSTART / "ground.toml", "sft.steps=2", **here)
    gate = ("sft.steps=2", "sft.gate_episodes=2", "sft.gate_rounds=0")
    missed = call(*mintact, "sft", QUICKSTART / "sft.toml", *gate, code=1, **here)
    assert "gate: greedy success" in missed
    # two steps teach nothing: a coin judges, and any text is read as an action
    spaces = dict(zip(DOMAINS, ("AnyMobile", "AnyDesktop", "AnyBrowser", "AnyTools"), strict=True))
    overrides = [f"domains.{d}.judge=stand_ins:coin" for d in DOMAINS]
    overrides += [f"domains.{d}.action_space.name=stand_ins:{s}" for d, s in spaces.items()]
    overrides += [f"domains.{d}.action_space.params={{prompt='short'}}" for d in DOMAINS]
    overrides += [f"domains.{d}.quota=1" for d in DOMAINS]
    overrides += ["trainer.steps=2", "evaluation.episodes=2", "evaluation.every=0"]
    output = call(
        *mintact, "train", QUICKSTART / "rl.toml", *overrides, PYTHONPATH=str(STAND_INS), **here
    )
    run = tmp_path / "runs" / "quickstart-0"
    for domain in DOMAINS:
        assert f"{domain}: produced" in output
    assert (run / "report.html").is_file()
    losses = rows(run / "run.db", "select value from metrics where name = 'train/loss'")
    assert len(losses) == 2
    assert all(math.isfinite(value) for (value,) in losses)
    assert "✗" not in call(*mintact, "check", "quickstart-0", **here)


@chromium
@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_quickstart_reaches_the_learning_bar(tmp_path, seed):
    call("sh", QUICKSTART / "run.sh", cwd=tmp_path, timeout=2900, SEED=str(seed))
    database = tmp_path / "runs" / f"quickstart-{seed}" / "run.db"
    counts = {
        (label, domain): (successes, episodes)
        for label, domain, successes, episodes in rows(
            database,
            "select label, domain, sum(reward > 0), count(reward) from evaluations "
            "where label in ('before', 'after') group by label, domain",
        )
    }
    rate = {key: successes / episodes for key, (successes, episodes) in counts.items()}
    assert all(counts["after", d][1] >= 95 for d in DOMAINS)
    pooled = {
        label: tuple(map(sum, zip(*(counts[label, d] for d in DOMAINS), strict=True)))
        for label in ("before", "after")
    }
    mean = {label: sum(rate[label, d] for d in DOMAINS) / 4 for label in pooled}
    assert mean["after"] - mean["before"] >= 0.30
    assert wilson(*pooled["before"]).high < wilson(*pooled["after"]).low
    rises = [rate["after", d] - rate["before", d] for d in DOMAINS]
    assert min(rises) >= -0.05
    assert sum(rise >= 0.25 for rise in rises) >= 3
    assert mean["after"] >= 0.80
