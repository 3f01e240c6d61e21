"""A training run on the real SGLang behind its router, with a worker killed in the middle.

`pytest -m real_sglang tests/plugins/sglang/test_real_training.py`; see test_real_sglang.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mintact_platform.trees import MARK

pytestmark = [
    pytest.mark.real_sglang,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        shutil.which("chromium-headless-shell") is None, reason="needs chromium-headless-shell"
    ),
]

HERE = Path(__file__).parent
STAND_INS = HERE.parents[1] / "mintact_platform" / "scheduler" / "modules"
DOMAINS = ("desktop", "mobile", "tools", "web")


def mintact(*words: object) -> list[str]:
    return [sys.executable, "-m", "mintact_platform.cli.main", *map(str, words)]


def rows(database: Path, sql: str) -> list[tuple]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def losses(database: Path) -> list[float]:
    if not database.is_file():
        return []
    return [
        value for (value,) in rows(database, "select value from metrics where name = 'train/loss'")
    ]


def server_of(worker: int, run: subprocess.Popen) -> int:
    """The process of a worker's SGLang server that this run launched."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        mark = f"{MARK}=mintact-{run.pid}-".encode()
        ours = [one for one in variables if one.startswith(mark)]
        if b"sglang.launch_server" in words and ours and ours[0].endswith(b"worker-%d" % worker):
            return int(process.name)
    raise AssertionError(f"worker {worker} has no server")


@pytest.fixture
def trained(tmp_path, sglang_python):
    """The run's directory, its output and exit code, and how many steps it had before the kill."""
    subprocess.run(
        mintact("torch", "new-model", "model", "--align-steps", "0"), cwd=tmp_path, check=True
    )
    python = f"rollout.params.python={sglang_python}"
    output, database = tmp_path / "output", tmp_path / "runs" / "sglang" / "run.db"
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(STAND_INS)}
    with output.open("wb") as file:
        run = subprocess.Popen(
            mintact("train", HERE / "train.toml", python),
            cwd=tmp_path,
            env=environ,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        while run.poll() is None and not losses(database):
            time.sleep(0.2)
        before = len(losses(database))
        if run.poll() is None:
            os.kill(server_of(1, run), signal.SIGKILL)
        run.wait()
    finally:
        run.kill()
        run.wait()
    return database.parent, output.read_text(), run.returncode, before


def test_four_domains_train_through_the_death_of_a_worker(trained, record_property):
    directory, output, code, before = trained
    assert code == 0, output[-4000:]
    database = directory / "run.db"
    assert 1 <= before < 4
    assert len(losses(database)) == 4
    assert all(f"{domain}: produced" in output for domain in DOMAINS)
    pushes = rows(database, "select version, seconds from pushes where ok")
    assert pushes
    outcomes = rows(database, "select outcome, count(*) from trajectories group by outcome")
    record_property(
        "note",
        f"SGLang behind its router: 4 steps, a worker killed after {before}; "
        f"pushes (version, seconds) {pushes}; trajectories {dict(outcomes)}",
    )
