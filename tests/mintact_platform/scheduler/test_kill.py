"""kill -9 of the scheduler at three moments, then `--resume`: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections import Counter

import pytest
from safetensors.numpy import load_file

from mintact_platform import config as configuration
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import plan
from mintact_platform.scheduler.seat import TrainerSeat
from mintact_platform.storage.directory import RunDirectory

MOMENTS = {
    "rollout": ({}, lambda m: m.rows("select 1 from trajectories limit 1")),
    "step": (
        {"SLOW_STEP": "1"},
        lambda m: m.rows("select 1 from steps where step = 2 and done_at is null"),
    ),
    "push": (
        {"SLOW_PUSH": "1"},
        lambda m: (m.run / "weights" / "1").is_dir() and m.rows("select 1 from steps"),
    ),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_a_kill_the_run_goes_on_as_if_nothing_had_happened(
    mintact, ledger_of, monkeypatch, moment
):
    environ, came = MOMENTS[moment]
    path = mintact.run_file(
        "mobile",
        "desktop",
        trainer__name="stand_ins:SlowStep",
        rollout__engine="stand_ins:SlowPush",
        rollout__temperature=1.0,
    )
    process = mintact.start("train", path, **environ)
    mintact.until(lambda: came(mintact), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert mintact.gone(), mintact.survivors()

    mintact("train", path, "--resume")
    assert mintact.gone(), mintact.survivors()
    steps = mintact.rows("select * from steps order by step")
    assert [row["step"] for row in steps] == [1, 2, 3]
    assert all(row["done_at"] is not None for row in steps)
    trained = Counter(g for row in steps for g in json.loads(row["groups_json"]))
    assert set(trained.values()) == {1}
    ledger = ledger_of(mintact("check", "run"))
    assert sum(row["trained"] for row in ledger.values()) == len(trained) == 6

    monkeypatch.chdir(mintact.directory)
    monkeypatch.syspath_prepend(str(path.parent))
    final = load_file(mintact.run / "weights" / "3" / "model.safetensors")
    again = asyncio.run(replayed(path, mintact, monkeypatch))
    assert final.keys() == again.keys()
    assert all((final[name] == again[name]).all() for name in final)


async def replayed(path, mintact, monkeypatch):
    """The weights that start + recorded steps give, computed by a fresh trainer."""
    from mintact_platform import processes

    modules = os.environ.get("PYTHONPATH", "")
    here = str((os.path.dirname(__file__)) + "/modules")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (here, modules))))
    monkeypatch.syspath_prepend(here)
    assert processes.MARK
    copy = mintact.directory / "copy"
    shutil.copytree(mintact.run, copy)
    shutil.rmtree(copy / "checkpoints")
    shutil.rmtree(copy / "weights")
    registry = Registry.discover()
    checked = plan(configuration.load(path), registry)
    directory = RunDirectory.open(copy, writable=True)
    seat = TrainerSeat(checked, directory, 99, say=lambda line: None)
    try:
        recovered = await seat.start()
        assert recovered.step == 3
        assert recovered.replayed == 3
    finally:
        await seat.close()
        directory.close()
    return load_file(copy / "weights" / "3" / "model.safetensors")
