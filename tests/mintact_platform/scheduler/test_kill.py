"""kill -9 at chosen and at random moments, then `--resume`: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter

import pytest

from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import check

MOMENTS = {
    "rollout": ({"SLOW_STEP": "1"}, lambda m: m.rows("select 1 from trajectories limit 1")),
    "push": (
        {"SLOW_PUSH": "1"},
        lambda m: (m.run / "weights" / "1").is_dir() and m.rows("select 1 from steps"),
    ),
    "step": (
        {"SLOW_STEP": "2"},
        lambda m: m.rows("select 1 from steps where step = 2 and done_at is null"),
    ),
}
"""What slows a run down there, and whether it came; in the order in which a run meets them."""


@pytest.mark.runs
@pytest.mark.timeout(600)
def test_after_kills_at_chosen_moments_the_run_goes_on_as_if_nothing_had_happened(
    mintact, ledger_of, same_as_recomputed
):
    path = mintact.run_file(
        "mobile",
        "desktop",
        trainer__name="stand_in_trainers:SlowStep",
        rollout__engine="stand_ins:SlowPush",
        rollout__temperature=1.0,
    )
    for moment, (environ, came) in MOMENTS.items():
        assert not came(mintact) if mintact.run.exists() else moment == "rollout"
        process = mintact.start("train", path, *resumed(mintact), **environ)
        mintact.until(lambda came=came: came(mintact), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert mintact.gone(), (moment, mintact.survivors())
        assert problems(mintact) == [], moment

    mintact("train", path, "--resume")
    assert mintact.gone(), mintact.survivors()
    trained = whole(mintact, steps=3)
    ledger = ledger_of(mintact("check", "run"))
    assert sum(row["trained"] for row in ledger.values()) == trained == 6
    assert same_as_recomputed(path, 3)


@pytest.mark.parametrize(
    "kills",
    [pytest.param(2, marks=pytest.mark.timeout(900)), pytest.param(50, marks=pytest.mark.slow)],
)
def test_kills_of_all_processes_at_random_moments_lose_nothing(
    mintact, ledger_of, same_as_recomputed, kills
):
    path = mintact.run_file(
        "mobile", "desktop", sync__every=2, trainer__updates=2, domains__desktop__instances=2
    )
    rng, killed = random.Random(kills), 0
    # a run that ends first goes on with more steps, and is tried again
    while killed < kills:
        killed += killed_at_random(mintact, path, rng)
        if (mintact.run / "run.db").exists():
            assert problems(mintact) == []
    steps = done(mintact) + 2
    mintact("train", path, *resumed(mintact), f"trainer.steps={steps}", timeout=400)
    assert mintact.gone(), mintact.survivors()
    trained = whole(mintact, steps=steps)
    ledger = ledger_of(mintact("check", "run"))
    assert sum(row["trained"] for row in ledger.values()) == trained
    assert same_as_recomputed(path, steps)


def killed_at_random(mintact, path, rng):
    """Start, kill every process in any order at a random moment; false when the run ended first."""
    before = progress(mintact)
    more = f"trainer.steps={done(mintact) + 6}"
    process = mintact.start("train", path, *resumed(mintact), more)
    came = moment(mintact, before, rng)
    end = time.monotonic() + 200
    while process.poll() is None and time.monotonic() < end and not came():
        time.sleep(0.01)
    if process.poll() is not None:
        assert process.returncode == 0, process.stdout.read()[-4000:]
        return False
    pids = [process.pid, *(pid for pid, _ in mintact.survivors())]
    rng.shuffle(pids)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
    assert mintact.gone(), mintact.survivors()
    return True


def moment(mintact, before, rng):
    """A condition: some seconds passed, or something was made, and a moment passed after it."""
    kind = rng.choice(["time", "trajectories", "trajectories", "steps", "done", "pushes"])
    wanted, pause = rng.randint(1, 6 if kind == "trajectories" else 2), rng.uniform(0, 0.4)
    start, reached = time.monotonic(), []
    if kind == "time":
        seconds = rng.uniform(0, 8)
        return lambda: time.monotonic() - start > seconds

    def came():
        if not reached and progress(mintact)[kind] >= before[kind] + wanted:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] > pause

    return came


COUNTS = """
select (select count(*) from trajectories) trajectories, (select count(*) from steps) steps,
  (select count(*) from steps where done_at is not null) done, (select count(*) from pushes) pushes
"""


def progress(mintact):
    if not (mintact.run / "run.db").exists():
        return dict.fromkeys(("trajectories", "steps", "done", "pushes"), 0)
    return mintact.rows(COUNTS)[0]


def done(mintact):
    return progress(mintact)["done"]


def resumed(mintact):
    return ("--resume",) if (mintact.run / "run.db").exists() else ()


def problems(mintact):
    directory = RunDirectory.open(mintact.run)
    try:
        return check(directory.database, directory.path)
    finally:
        directory.close()


def whole(mintact, *, steps):
    """Every step is done, every group is in one of them; returns how many groups."""
    rows = mintact.rows("select * from steps order by step")
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    assert all(row["done_at"] is not None for row in rows)
    trained = Counter(group for row in rows for group in json.loads(row["groups_json"]))
    assert set(trained.values()) == {1}
    return len(trained)
