"""The trainer's checkpoints in a run: written and pruned, and the newest sound one loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mintact_platform.config import RunConfig
from mintact_platform.errors import CheckpointCorrupt, StorageError
from mintact_platform.storage import checkpoints
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.process import TrainerProcess


async def write(
    trainer: TrainerProcess,
    directory: RunDirectory,
    config: RunConfig,
    *,
    step: int,
    say: Callable[[str], None],
) -> None:
    """Checkpoint a step and remove what is older than `trainer.checkpoints_kept`.

    One that cannot be written is said; the steps after the last good one are taken again instead.
    """
    path = directory.checkpoints / str(step)
    try:
        await trainer.save(str(path), step=step, deadline=config.deadlines.push)
    except StorageError as error:
        say(f"no checkpoint at step {step}, the last good one stays: {error}")
        return
    kept = config.trainer.checkpoints_kept
    await asyncio.to_thread(checkpoints.retain, directory.checkpoints, keep=kept)


async def restored(
    trainer: TrainerProcess,
    directory: RunDirectory,
    config: RunConfig,
    *,
    say: Callable[[str], None],
) -> int:
    """Load the newest sound checkpoint; the last step it contains, 0 where there is none.

    A damaged one is passed over, and said: the steps after an older one are taken again.
    """
    for newest in reversed(await asyncio.to_thread(checkpoints.complete, directory.checkpoints)):
        try:
            return await trainer.load(str(newest.path), deadline=config.deadlines.train)
        except CheckpointCorrupt as error:
            say(f"checkpoint {newest.step} is passed over: {error.what}")
    return 0
