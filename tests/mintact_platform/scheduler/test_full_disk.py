"""A disk without room: one line, the last good checkpoint stays, and the run can be resumed."""

from __future__ import annotations

import json
import subprocess

import pytest

from mintact_platform.storage import checkpoints

pytestmark = pytest.mark.runs


def test_a_checkpoint_that_does_not_fit_costs_the_run_nothing(
    mintact, ledger_of, same_as_recomputed
):
    path = mintact.run_file(trainer__name="stand_in_trainers:FullDisk")
    output = mintact("train", path, FULL_DISK="1")
    told = [line for line in output.splitlines() if "the last good one stays" in line]
    assert [line.split(",")[0] for line in told] == [
        "no checkpoint at step 2",
        "no checkpoint at step 3",
        "no checkpoint at step 3",
    ][: len(told)]
    assert len(told) >= 2
    assert [c.step for c in checkpoints.complete(mintact.run / "checkpoints")] == [1]
    output = mintact("train", path, "--resume", "trainer.steps=4")
    assert "replayed step 2" in output
    assert "replayed step 3" in output
    assert [c.step for c in checkpoints.complete(mintact.run / "checkpoints")] == [1, 4]
    assert ledger_of(mintact("check", "run"))["mobile"]["trained"] == 4
    assert same_as_recomputed(path, 4)


@pytest.fixture
def small_disk(mintact):
    """A file system of a few megabytes under `runs/`, which can be made larger."""
    runs = mintact.directory / "runs"
    runs.mkdir()

    def mount(megabytes, *options):
        how = ",".join((*options, f"size={megabytes}m"))
        command = ["mount", "-t", "tmpfs", "-o", how, "tmpfs", str(runs)]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("may not mount a tmpfs")

    mounted = []

    def resize(megabytes):
        mount(megabytes, *(["remount"] if mounted else []))
        mounted.append(megabytes)

    yield resize
    if mounted:
        subprocess.run(["umount", "-l", str(runs)], check=True)


# of a checkpoint of 8 MB and weights of 3 MB, two do not fit, or not even one beside two weights
@pytest.mark.parametrize("megabytes", [20, 12])
def test_a_full_disk_stops_the_run_at_worst_and_room_is_all_it_needs(
    mintact, ledger_of, same_as_recomputed, small_disk, megabytes
):
    small_disk(megabytes)
    path = mintact.run_file(deadlines__push=60)
    process = mintact.start("train", path)
    output, _ = process.communicate(timeout=200)
    ends = [line for line in output.splitlines() if line.startswith("mintact: ")]
    assert process.returncode == (1 if megabytes == 12 else 0), output[-3000:]
    assert len(ends) == process.returncode
    assert "space" in output
    for checkpoint in checkpoints.complete(mintact.run / "checkpoints"):
        checkpoint.verify()

    small_disk(80)
    mintact("train", path, "--resume", "trainer.steps=4")
    assert mintact.gone(), mintact.survivors()
    steps = mintact.rows("select * from steps order by step")
    assert [row["step"] for row in steps] == [1, 2, 3, 4]
    assert len({g for row in steps for g in json.loads(row["groups_json"])}) == 4
    assert ledger_of(mintact("check", "run"))["mobile"]["trained"] == 4
    assert same_as_recomputed(path, 4)


def test_a_disk_that_fills_up_in_the_middle_is_survived(
    mintact, ledger_of, same_as_recomputed, small_disk
):
    small_disk(40)
    path = mintact.run_file(trainer__steps=4)
    process = mintact.start("train", path)
    mintact.until(lambda: mintact.rows("select 1 from steps where done_at"), process)
    ballast = mintact.directory / "runs" / "ballast"
    with pytest.raises(OSError, match="No space"):
        fill(ballast)
    output, _ = process.communicate(timeout=200)
    ends = [line for line in output.splitlines() if line.startswith("mintact: ")]
    assert len(ends) == process.returncode <= 1, output[-3000:]
    ballast.unlink()
    mintact("train", path, "--resume", "trainer.steps=5")
    assert ledger_of(mintact("check", "run"))["mobile"]["trained"] == 5
    assert same_as_recomputed(path, 5)


def fill(path):
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
