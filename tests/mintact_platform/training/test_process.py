from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest

from mintact_platform import processes
from mintact_platform.errors import (
    CheckpointCorrupt,
    ConfigurationError,
    PluginError,
    PluginNotFound,
    TrainerError,
)
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import (
    RowRef,
    StepReport,
    StepRequest,
    SupervisedRequest,
    TrainerSpec,
)

SPEC = TrainerSpec("model", "run", {"lr": 1e-6}, {"preset": "mintact"}, 1024, 1, 8, 0)
DEADLINE = 60.0


@pytest.fixture
async def trainer(toy_trainer: str, tmp_path: Path) -> AsyncIterator[TrainerProcess]:
    process = await TrainerProcess.start(
        toy_trainer, {}, SPEC, log=tmp_path / "t.log", mark=f"toy-{os.getpid()}", deadline=DEADLINE
    )
    yield process
    await process.close()
    assert processes.marked(f"toy-{os.getpid()}") == []


async def test_requests_and_reports_arrive_as_they_were_sent(trainer: TrainerProcess) -> None:
    rows = (
        RowRef("a", "p/a", "g", "web", 1.0, True, {"style": 0.5}, (0.0, 1.0)),
        RowRef("b", "p/b", "g", "tools", 0.25),
    )
    report = await trainer.step(StepRequest(3, rows, 0, 11), DEADLINE)
    assert report == StepReport(3, 0.5, 1.0, {"rows": {"web": 1.0, "tools": 0.25}}, 2, 0.0)
    supervised = await trainer.supervised(SupervisedRequest(4, ("x#0",), 0.1), DEADLINE)
    assert (supervised.step, supervised.loss, supervised.tokens) == (4, 0.1, 1)


async def test_calls_made_together_are_answered_one_after_the_other(
    trainer: TrainerProcess,
) -> None:
    answers = await asyncio.gather(
        *(trainer.score("", temperature=float(t), deadline=DEADLINE) for t in range(8))
    )
    assert [answer["logprobs"][0][0] for answer in answers] == [-float(t) for t in range(8)]


async def scoring(
    trainer: TrainerProcess, fifo: Path
) -> tuple[asyncio.Task[dict[str, Any]], IO[str]]:
    """A call that the trainer is busy with until the file is closed."""
    os.mkfifo(fifo)
    call = asyncio.create_task(trainer.score(str(fifo), temperature=1.0, deadline=DEADLINE))
    return call, await asyncio.to_thread(fifo.open, "w")


async def test_a_cancelled_call_does_not_answer_the_next_one(
    trainer: TrainerProcess, tmp_path: Path
) -> None:
    call, held = await scoring(trainer, tmp_path / "held")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    held.close()
    answer = await trainer.score("", temperature=2.0, deadline=DEADLINE)
    assert answer["logprobs"][0][0] == -2.0


async def test_an_exception_comes_back_as_one_line_and_the_trainer_lives(
    trainer: TrainerProcess,
) -> None:
    with pytest.raises(TrainerError, match=r"^trainer confirm: ValueError: no version 7; see .*$"):
        await trainer.confirm(7, DEADLINE)
    with pytest.raises(CheckpointCorrupt, match=r"^here: is cut short; take another$"):
        await trainer.load("here", DEADLINE)
    assert trainer.alive()


async def test_a_death_is_noticed_at_once_and_ends_with_the_log(trainer: TrainerProcess) -> None:
    with pytest.raises(TrainerError, match=r"died \(exit 3\): .*about to die"):
        await trainer.export(1, "w", deadline=DEADLINE)
    assert not trainer.alive()
    with pytest.raises(TrainerError, match="died"):
        await trainer.save("c", step=1, deadline=DEADLINE)


async def test_a_killed_trainer_is_noticed(trainer: TrainerProcess, tmp_path: Path) -> None:
    call, held = await scoring(trainer, tmp_path / "held")
    os.kill(trainer.pid, signal.SIGKILL)
    with pytest.raises(TrainerError, match=r"died \(exit -9\)"):
        await call
    held.close()


async def test_a_trainer_that_hangs_is_killed_at_its_deadline(trainer: TrainerProcess) -> None:
    with pytest.raises(TrainerError, match=r"trainer score: no answer within 0\.2 s"):
        await trainer.score("for ever", temperature=1.0, deadline=0.2)
    assert not trainer.alive()


async def test_a_process_with_other_plugins_is_refused(toy_trainer: str, tmp_path: Path) -> None:
    mark = f"versions-{os.getpid()}"
    with pytest.raises(TrainerError, match=r"plugins differ .*acme-trainer 0\.2 against 0\.3 here"):
        await TrainerProcess.start(
            toy_trainer,
            {},
            SPEC,
            log=tmp_path / "t.log",
            mark=mark,
            deadline=DEADLINE,
            versions={"acme-trainer": "0.2"},
        )
    assert processes.marked(mark) == []


async def test_a_wrong_name_or_parameter_is_said_by_its_own_error(
    toy_trainer: str, tmp_path: Path
) -> None:
    options = {"log": tmp_path / "t.log", "mark": f"wrong-{os.getpid()}", "deadline": DEADLINE}
    with pytest.raises(PluginNotFound, match="did you mean 'acme/toy'"):
        await TrainerProcess.start("acme/tpy", {}, SPEC, **options)
    with pytest.raises(ConfigurationError, match="unknown parameter 'greting'"):
        await TrainerProcess.start(toy_trainer, {"greting": "x"}, SPEC, **options)


async def test_closing_tells_the_trainer_first(toy_trainer: str, tmp_path: Path) -> None:
    log, mark = tmp_path / "t.log", f"closing-{os.getpid()}"
    process = await TrainerProcess.start(
        toy_trainer, {"greeting": "good day"}, SPEC, log=log, mark=mark, deadline=DEADLINE
    )
    await process.close(grace=DEADLINE)
    assert log.read_text().split("\n") == ["good day", "closed", ""]


def test_the_trainer_ends_with_its_parent(toy_trainer: str, tmp_path: Path) -> None:
    program = f"""
import asyncio, os, signal
from pathlib import Path
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import TrainerSpec

async def main():
    spec = TrainerSpec("m", "r", {{}}, {{}}, 1, 1, 8, 0)
    log = Path({str(tmp_path / "t.log")!r})
    process = await TrainerProcess.start({toy_trainer!r}, {{}}, spec,
        log=log, mark=f"orphan-{{os.getpid()}}", deadline=60)
    scoring = asyncio.create_task(process.score("for ever", temperature=1.0, deadline=600))
    while "busy" not in log.read_text():
        await asyncio.sleep(0.01)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    parent = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    pid = int(parent.stdout)
    end = time.monotonic() + 60
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not runs(pid)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which its new parent may not have reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


async def test_required_plugins_are_asked_of_the_process_too(
    toy_trainer: str, tmp_path: Path
) -> None:
    mark = f"required-{os.getpid()}"
    options = {"log": tmp_path / "t.log", "mark": mark, "deadline": DEADLINE}
    process = await TrainerProcess.start(
        toy_trainer, {}, SPEC, required=["acme-trainer>=0.3"], **options
    )
    await process.close()
    with pytest.raises(PluginError, match=r"trainer process: .*acme-trainer>=4 is required, 0\.3"):
        await TrainerProcess.start(toy_trainer, {}, SPEC, required=("acme-trainer>=4",), **options)


async def test_a_loss_that_misbehaves_in_a_step_is_the_run_s_failure_not_bad_input(
    trainer: TrainerProcess,
) -> None:
    rows = (RowRef("bad loss", "p", "g", "web", 1.0),)
    with pytest.raises(TrainerError, match=r"^objective 'acme/loss': surrogate is not finite"):
        await trainer.step(StepRequest(1, rows, 0, 1), DEADLINE)
    assert trainer.alive()
