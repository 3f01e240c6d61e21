"""Resume in a new process: checkpoint, replay, the same weights bit for bit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mintact_platform.errors import StorageError
from mintact_platform.storage import checkpoints
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import StepReport

D = 120.0


async def start(run: Any, tmp_path: Path, mark: str) -> TrainerProcess:
    log, mark = tmp_path / f"{mark}.log", f"{mark}-{os.getpid()}"
    return await TrainerProcess.start("torch", {}, run.spec(), log=log, mark=mark, deadline=D)


async def test_a_replay_after_a_kill_gives_the_same_weights(run: Any, tmp_path: Path) -> None:
    scorer = run.started()
    requests = [run.request(step, scorer=scorer) for step in (1, 2, 3)]
    first = await start(run, tmp_path, "first")
    reports: list[StepReport] = []
    for request in requests:
        reports.append(await first.step(request, D))
        if request.step == 1:
            await first.save("checkpoints/1", step=1, deadline=D)
    await first.save("after", step=3, deadline=D)
    await first.kill()

    second = await start(run, tmp_path, "second")
    try:
        assert await second.load("checkpoints/1", D) == 1
        for request, report in zip(requests[1:], reports[1:], strict=True):
            again = await second.step(request, D)
            assert (again.loss, again.grad_norm) == (report.loss, report.grad_norm)
            assert again.metrics == report.metrics
        await second.save("again", step=3, deadline=D)
    finally:
        await second.close()
    for name in ("weights", "deployed", "optimizer"):
        files = [run.path / where / f"{name}.safetensors" for where in ("after", "again")]
        assert files[0].read_bytes() == files[1].read_bytes()


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the writes themselves fail, in the kernel."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("room", [0, 200_000, 3_000_000])
def test_a_checkpoint_that_does_not_fit_leaves_the_last_good_one(run: Any, room: int) -> None:
    trainer = run.started()
    root = run.path / "checkpoints"
    trainer.step(run.request(1, scorer=trainer))
    trainer.save("checkpoints/1", step=1)
    trainer.step(run.request(2, scorer=trainer))
    with full_disk(room), pytest.raises(StorageError, match="cannot be written"):
        trainer.save("checkpoints/2", step=2)
    assert [path.name for path in root.iterdir()] == ["1"]
    [one] = checkpoints.complete(root)
    one.verify()
    trainer.save("checkpoints/2", step=2)
    assert [c.step for c in checkpoints.complete(root)] == [1, 2]


def test_a_checkpoint_of_the_same_step_stays_when_its_successor_does_not_fit(run: Any) -> None:
    trainer = run.started()
    trainer.save("checkpoints/0", step=0)
    with full_disk(200_000), pytest.raises(StorageError):
        trainer.save("checkpoints/0", step=0)
    checkpoints.read(run.path / "checkpoints" / "0").verify()
