"""The consumer: forms batches under quotas, trains, pushes weights, checkpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b

from mintact_platform.config import RunConfig
from mintact_platform.errors import ModelServerError, TrainerError
from mintact_platform.rollouts.seeds import seed_of
from mintact_platform.scheduler import checkpointing, seen
from mintact_platform.scheduler.changes import Changes
from mintact_platform.scheduler.observe import Observers
from mintact_platform.scheduler.rows import rows_of
from mintact_platform.scheduler.seat import TrainerSeat
from mintact_platform.scheduler.state import Batch, Scheduler
from mintact_platform.scheduler.synchronizer import ParameterSynchronizer
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.trainer import StepReport, StepRequest

PUSH_ATTEMPTS = 10


@dataclass(slots=True)
class Pace:
    """How the trainer's time went, in seconds since the start of training."""

    started: float
    training: float = 0.0
    tokens: int = 0
    loss: float | None = None

    def idle(self, now: float) -> float:
        """Share of the time the trainer waited."""
        return 1 - self.training / max(now - self.started, 1e-9)


class Consumer:
    """Runs trainer steps until the last one.

    Args:
        config: the run.
        scheduler: pure state; forms batches.
        seat: the trainer's seat.
        synchronizer: pushes weights.
        directory: steps are written here before they are taken.
        observers: told what happened.
        changes: told whenever the scheduler's state changed.
        after_step: awaited with the step and whether weights were pushed; true ends the run.
        say: prints a line for people.
        step: last step already taken.
        since_push: steps taken since the last push.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        config: RunConfig,
        scheduler: Scheduler,
        seat: TrainerSeat,
        synchronizer: ParameterSynchronizer,
        directory: RunDirectory,
        *,
        observers: Observers,
        changes: Changes,
        after_step: Callable[[int, bool], Awaitable[bool]],
        say: Callable[[str], None],
        step: int = 0,
        since_push: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.scheduler, self.seat = config, scheduler, seat
        self.synchronizer, self.directory = synchronizer, directory
        self.observers, self.changes, self.after_step, self.say = (
            observers,
            changes,
            after_step,
            say,
        )
        self.step, self.since_push, self.clock = step, since_push, clock
        self.pace = Pace(clock())
        self.phase = "waiting for a batch"
        self.failed_pushes, self._push_error = 0, ""

    async def run(self) -> None:
        """Train until `trainer.steps` or until `after_step` says so."""
        if self._push_due():
            await self._push()
        while self.step < self.config.trainer.steps:
            batch = await self._batch()
            report = await self._train(batch)
            pushed = self._push_due() and await self._push()
            await self._checkpoint(pushed)
            self._report(batch, report)
            if await self.after_step(self.step, pushed):
                break
        if self.since_push:
            while not await self._push():
                await asyncio.sleep(0.25)
            await self._checkpoint(True, final=True)

    async def _batch(self) -> Batch:
        self.phase = "waiting for a batch"
        while True:
            seen = self.changes.count
            if self._push_due() and await self._push():
                # the push after the last step failed: until it succeeds nothing new may start
                await self._checkpoint(True)
            batch = self.scheduler.form_batch(self.clock())
            if batch is not None:
                if batch.stale:
                    await self.directory.database.write(
                        ledger.set_fate(list(batch.stale), "stale", "older than max_staleness")
                    )
                if batch.groups:
                    return batch
            await self.changes.beyond(seen, 0.25)

    async def _train(self, batch: Batch) -> StepReport:
        self.phase = "training"
        step = self.step + 1
        groups = [group.id for group in batch.groups]
        seed = seed_of(self.config.seed, "step", step)
        version = self.synchronizer.version
        await self.directory.database.write(
            ledger.begin_step(
                step, groups, version, batch.realised, seed, config_hash(self.config)
            ),
            *seen.record(batch, time.time()),
        )
        self.changes.tell()
        rows = await asyncio.to_thread(rows_of, self.directory, groups)
        start = self.clock()
        report = await self._taken(StepRequest(step, rows, version, seed))
        self.pace.training += self.clock() - start
        self.pace.tokens += report.tokens
        self.pace.loss = report.loss
        await record_step(self.directory, report, batch, version, self.pace.idle(self.clock()))
        self.step, self.since_push = step, self.since_push + 1
        self.scheduler.step_done(step)
        return report

    async def _taken(self, request: StepRequest) -> StepReport:
        """Take a recorded step; a trainer that dies over it is replaced, and its successor does."""
        try:
            return await self.seat.process.step(request, deadline=self.config.deadlines.train)
        except TrainerError as error:
            recovered = await self.seat.revive(error)
            if recovered.pending is None or recovered.step != request.step:
                raise
            return recovered.pending

    def _push_due(self) -> bool:
        return self.since_push >= self.config.sync.every

    async def _push(self) -> bool:
        self.phase = "pushing weights"
        if not self.seat.process.alive():
            await self.seat.revive(TrainerError("the process died between two steps"))
        push = await self.synchronizer.push(self.step)
        if push.error:
            self.failed_pushes += 1
            if push.error != self._push_error:
                self.say(f"push of version {push.version + 1} failed, to be retried: {push.error}")
            self._push_error = push.error
            if self.failed_pushes >= PUSH_ATTEMPTS:
                raise ModelServerError(
                    f"{self.failed_pushes} pushes in a row failed, the last: {push.error}",
                    next="the run can be resumed with --resume",
                )
            return False
        self.since_push, self.failed_pushes, self._push_error = 0, 0, ""
        self.scheduler.pushed(push.version)
        self.observers.notify("weights_synced", version=push.version)
        self.changes.tell()
        return True

    async def _checkpoint(self, pushed: bool, *, final: bool = False) -> None:
        every = self.config.trainer.checkpoint_every
        due = pushed if every == "push" else self.step % int(every) == 0
        if due or final:
            await checkpointing.write(
                self.seat.process, self.directory, self.config, step=self.step, say=self.say
            )

    def _report(self, batch: Batch, report: StepReport) -> None:
        self.observers.notify("step_finished", step=report.step, metrics=report.metrics)
        if batch.relaxed:
            self.say(f"step {report.step}: quotas relaxed, realised {dict(batch.realised)}")


def config_hash(config: RunConfig) -> str:
    """Names the settings a step was taken under."""
    return blake2b(config.model_dump_json().encode(), digest_size=8).hexdigest()


async def record_step(
    directory: RunDirectory, report: StepReport, batch: Batch, version: int, idle: float
) -> None:
    """Mark the step done and write its metrics, in one transaction."""
    now = time.time()
    values = {
        "train/loss": {"": report.loss},
        "train/grad_norm": {"": report.grad_norm},
        "train/tokens": {"": float(report.tokens)},
        "train/seconds": {"": report.seconds},
        "idle/trainer": {"": idle},
        "mix/realised": {d: float(n) for d, n in batch.realised.items()},
        "staleness/mean": staleness(batch, version),
        **{f"train/{name}": dict(by) for name, by in report.metrics.items()},
    }
    await directory.database.write(
        ledger.finish_step(report.step, values),
        *(
            ledger.metric(name, domain, value, now)
            for name, by in values.items()
            for domain, value in by.items()
        ),
    )


def staleness(batch: Batch, version: int) -> dict[str, float]:
    """Mean versions between a group's oldest supervised token and the deployed weights."""
    ages: dict[str, list[int]] = {}
    for group in batch.groups:
        ages.setdefault(group.domain, []).append(version - group.oldest_version)
    return {domain: sum(a) / len(a) for domain, a in ages.items()}
