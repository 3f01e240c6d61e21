"""Resume in a new process: checkpoint, replay, the same weights bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import StepReport

D = 120.0


async def start(run: Any, tmp_path: Path, mark: str) -> TrainerProcess:
    return await TrainerProcess.start(
        "torch", {}, run.spec(), log=tmp_path / f"{mark}.log", mark=mark, deadline=D
    )


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
