"""Another loss on a run's recorded batches: no environment, no model server, the run unchanged.

The run's own loss takes every recorded step again and moves the weights as it did; before each
update both losses are measured there. A second trainer may follow the other loss's own updates:
its batches were sampled by the recorded run's policy, so what it shows is off-policy.
"""

from __future__ import annotations

import asyncio
import filecmp
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from mintact_platform import config as configuration
from mintact_platform.config import ObjectiveSection, RunConfig
from mintact_platform.errors import ConfigurationError, first_cause
from mintact_platform.overrides import apply_overrides
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.rows import rows_of
from mintact_platform.scheduler.runtime import mark, trainer_spec
from mintact_platform.storage import checkpoints
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import Comparison, StepReport, StepRequest

Follow = Literal["recorded", "own"]
PARTS = ("params", "advantage", "correction", "normaliser", "objective", "terms")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step as run.db has it.

    Attributes:
        step: 1-based.
        groups: ids in batch order.
        prox_version: θ^(deployed) it was taken under.
        seed: of the step.
        loss: as the run recorded it, None where it did not.
        pushed: version that was pushed after it, None without a push.
    """

    step: int
    groups: tuple[str, ...]
    prox_version: int
    seed: int
    loss: float | None
    pushed: int | None


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A recorded step, taken again.

    Attributes:
        step: 1-based.
        recorded_loss: as the run recorded it.
        comparison: both losses at the recorded run's weights.
        followed: the other loss's own step at weights it moved itself; None when not followed.
        same_weights: whether the weights pushed after the step are the run's, byte for byte; None
            where nothing was pushed or the run keeps them no longer.
    """

    step: int
    recorded_loss: float | None
    comparison: Comparison
    followed: StepReport | None = None
    same_weights: bool | None = None

    @property
    def exact(self) -> bool:
        """Whether the own loss came out as recorded, to the last bit."""
        return self.comparison.report.loss == self.recorded_loss

    def to_json(self) -> dict[str, Any]:
        """One line of `steps.jsonl`."""
        return {
            "step": self.step,
            "recorded_loss": self.recorded_loss,
            "exact": self.exact,
            "same_weights": self.same_weights,
            **{k: v for k, v in asdict(self.comparison).items() if k != "report"},
            "tokens": self.comparison.report.tokens,
            "followed": None if self.followed is None else asdict(self.followed),
        }


def other_section(
    own: ObjectiveSection, *, objective: str | None, preset: str | None, overrides: Sequence[str]
) -> ObjectiveSection:
    """The `[objective]` section of the other loss: the run's own with what is asked for changed.

    A preset brings all its parts; an objective replaces that part alone.

    Args:
        own: of the run.
        objective: name of the surrogate.
        preset: name of a preset.
        overrides: `key=value` of the section, with or without `objective.` before the key.

    Raises:
        ConfigurationError: an unknown key, a wrong value.
    """
    values = own.model_dump(mode="json", exclude_none=True)
    if preset is not None:
        values = {k: v for k, v in values.items() if k not in PARTS} | {"preset": preset}
    if objective is not None:
        values = {k: v for k, v in values.items() if k != "params"} | {"objective": objective}
    apply_overrides(values, [override.removeprefix("objective.") for override in overrides])
    try:
        return ObjectiveSection.model_validate(values)
    except ValidationError as error:
        raise configuration.first_mistake(error, "objective", ObjectiveSection) from None


def recorded_steps(directory: RunDirectory) -> list[Recorded]:
    """The steps that were finished, in order."""
    database = directory.database
    pushed = {
        row["step"]: row["version"]
        for row in database.read("SELECT step, version FROM pushes WHERE ok = 1")
    }
    rows = database.read("SELECT * FROM steps WHERE done_at IS NOT NULL ORDER BY step")
    return [
        Recorded(
            row["step"],
            tuple(json.loads(row["groups_json"])),
            row["prox_version"],
            row["seed"],
            json.loads(row["metrics_json"] or "{}").get("train/loss", {}).get(""),
            pushed.get(row["step"]),
        )
        for row in rows
    ]


def chosen_steps(
    steps: Sequence[Recorded], first: int, count: int | None, *, where: str
) -> list[Recorded]:
    """`count` steps from `first` on.

    Raises:
        ConfigurationError: the run has none there.
    """
    chosen = [step for step in steps if step.step >= first][:count]
    if not chosen:
        held = f"it has steps 1 to {steps[-1].step}" if steps else "it has no finished step"
        raise ConfigurationError(f"no step {first} is recorded", where=where, next=held)
    return chosen


@dataclass
class Replay:
    """One replay of a run.

    Attributes:
        directory: of the run, open for reading.
        config: of the run.
        registry: installed plugins.
        other: the other loss.
        output: folder for logs and passing weights, outside what the run itself uses.
        follow: `own` trains a second copy with the other loss.
    """

    directory: RunDirectory
    config: RunConfig
    registry: Registry
    other: ObjectiveSection
    output: Path
    follow: Follow = "recorded"
    _passing: Path = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is started yet."""
        self._passing = self.output.resolve() / "passing"

    async def steps(self, steps: Sequence[Recorded], first: int) -> AsyncIterator[ReplayedStep]:
        """Take the steps again, in order; those before `first` only to reach its weights.

        Args:
            steps: recorded ones, from the run's first to the last that is wanted.
            first: the first to compare.

        Raises:
            MintactError: a trainer that fails, or one that cannot compare.
        """
        async with AsyncExitStack() as stack:
            stack.callback(shutil.rmtree, self._passing, ignore_errors=True)
            trainer = await self._trainer(stack, "replay", self.config)
            for step in steps[await self._restore(trainer, first - 1) : first - 1]:
                await trainer.step(self._request(step), deadline=self.config.deadlines.train)
                await self._push(trainer, step)
            follower = await self._follower(stack, trainer, first - 1)
            for step in steps[first - 1 :]:
                yield await self._replayed(trainer, follower, step)

    async def _trainer(self, stack: AsyncExitStack, name: str, config: RunConfig) -> TrainerProcess:
        trainer = await TrainerProcess.start(
            config.trainer.name,
            config.trainer.params,
            trainer_spec(config, self.directory, 0),
            log=self.output / f"{name}.log",
            mark=mark(0, name),
            deadline=config.deadlines.start,
            versions=self.registry.versions(),
            required=config.required_plugins,
        )
        stack.push_async_callback(trainer.close)
        return trainer

    async def _restore(self, trainer: TrainerProcess, last: int) -> int:
        """Load the newest checkpoint with at most `last` steps; returns how many it has."""
        held = await asyncio.to_thread(checkpoints.complete, self.directory.checkpoints)
        fitting = [checkpoint for checkpoint in held if checkpoint.step <= last]
        if not fitting:
            return 0
        path = str(fitting[-1].path.resolve())
        return await trainer.load(path, deadline=self.config.deadlines.start)

    async def _follower(
        self, stack: AsyncExitStack, trainer: TrainerProcess, done: int
    ) -> TrainerProcess | None:
        """A second trainer at the same weights, under the other loss."""
        if self.follow == "recorded":
            return None
        config = self.config.model_copy(update={"objective": self.other})
        follower = await self._trainer(stack, "followed", config)
        if done:
            path, limit = str(self._passing / "start"), config.deadlines.push
            await trainer.save(path, step=done, deadline=limit)
            await follower.load(path, deadline=limit)
        return follower

    async def _replayed(
        self, trainer: TrainerProcess, follower: TrainerProcess | None, step: Recorded
    ) -> ReplayedStep:
        request, limit = self._request(step), self.config.deadlines.train
        section = self.other.model_dump(mode="json")

        async def followed() -> StepReport | None:
            if follower is None:
                return None
            report = await follower.step(request, deadline=limit)
            await self._push(follower, step)
            return report

        try:
            async with asyncio.TaskGroup() as group:
                beside = group.create_task(followed())
                comparison = await trainer.compare(request, section, deadline=limit)
                same = await self._push(trainer, step)
        except BaseExceptionGroup as failed:
            raise first_cause(failed) from failed
        return ReplayedStep(step.step, step.loss, comparison, beside.result(), same)

    async def _push(self, trainer: TrainerProcess, step: Recorded) -> bool | None:
        """θ becomes θ^(deployed) where it did; says whether the run's weights are the same."""
        if step.pushed is None:
            return None
        path, limit = self._passing / str(trainer.pid), self.config.deadlines.push
        await trainer.export(step.pushed, str(path), deadline=limit)
        await trainer.confirm(step.pushed, deadline=limit)
        same = await asyncio.to_thread(_same, path, self.directory.weights(step.pushed))
        await asyncio.to_thread(shutil.rmtree, path)
        return same

    def _request(self, step: Recorded) -> StepRequest:
        rows = rows_of(self.directory, step.groups)
        return StepRequest(step.step, rows, step.prox_version, step.seed)


def _same(ours: Path, theirs: Path) -> bool | None:
    names = sorted(path.name for path in theirs.glob("*.safetensors"))
    if not names:
        return None
    return not any(filecmp.cmpfiles(ours, theirs, names, shallow=False)[1:])
