"""Resume: newest complete checkpoint, then replay of the recorded steps after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from mintact_platform.config import RunConfig
from mintact_platform.errors import StorageError
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import Verdict
from mintact_platform.rollouts.rollouter import Judged
from mintact_platform.scheduler import checkpointing
from mintact_platform.scheduler.produce import OpenGroup
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.rows import rows_of
from mintact_platform.storage import ledger, trajectories
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import StepReport, StepRequest


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the trainer stands after recovery.

    Attributes:
        step: last step its weights contain.
        version: θ^(deployed).
        since_push: steps since the last confirmed push.
        replayed: steps taken again.
        pending: report of the step that was recorded but not done, now done.
    """

    step: int
    version: int
    since_push: int
    replayed: int
    pending: StepReport | None = None


async def recover(
    trainer: TrainerProcess,
    directory: RunDirectory,
    config: RunConfig,
    *,
    say: Callable[[str], None],
) -> Recovered:
    """Bring a fresh trainer to the last recorded step: weights equal the start plus `steps`.

    A step written ahead but not done is done now; a push that was confirmed is exported again, so
    that θ^(deployed) and `weights/<version>/` are as they were.
    """
    limit = config.deadlines.train
    step = await checkpointing.restored(trainer, directory, config, say=say)
    pushes = _pushes(directory)
    version = max((v for s, v in pushes.items() if s <= step), default=0)
    recorded = directory.database.read("select * from steps where step > ? order by step", (step,))
    replayed, pending = 0, None
    for row in recorded:
        if row["step"] != step + 1:
            raise StorageError(
                f"step {step + 1} is not recorded, the next one is {row['step']}",
                where=str(directory.path),
            )
        groups = json.loads(row["groups_json"])
        rows = await asyncio.to_thread(rows_of, directory, groups)
        report = await trainer.step(
            StepRequest(row["step"], rows, row["prox_version"], row["seed"]), deadline=limit
        )
        step, replayed = row["step"], replayed + 1
        if row["done_at"] is None:
            pending = report
            values = {"train/loss": {"": report.loss}, "train/grad_norm": {"": report.grad_norm}}
            await directory.database.write(ledger.finish_step(step, values))
        if step in pushes:
            version = pushes[step]
            await trainer.export(version, str(directory.weights(version)), deadline=limit)
            await trainer.confirm(version, deadline=limit)
        say(f"replayed step {step}")
    if version and not directory.weights(version).exists():
        if step not in pushes:
            raise StorageError(f"weights/{version} is missing", where=str(directory.path))
        await trainer.export(version, str(directory.weights(version)), deadline=limit)
    last_push = max(pushes, default=0)
    return Recovered(step, version, step - last_push, replayed, pending)


def open_groups(directory: RunDirectory) -> list[tuple[OpenGroup, list[Judged]]]:
    """Groups open at the kill: finished members are kept, unjudged ones returned beside them."""
    found = []
    rows = directory.database.read(
        "select g.id, g.domain, t.json from groups g join tasks t on t.id = g.task "
        "where g.fate = 'open' order by g.id"
    )
    for row in rows:
        group = OpenGroup(row["id"], row["domain"], Task.from_json(json.loads(row["json"])))
        unjudged = []
        members = directory.database.read(
            "select * from trajectories where group_id = ? order by member, attempt", (row["id"],)
        )
        for member in members:
            judged = _judged(directory, member)
            if judged.outcome.counts and judged.verdict is None:
                unjudged.append(judged)
            elif judged.live or judged.outcome is Outcome.JUDGE_FAILURE:
                group.kept[member["member"]] = judged
        found.append((group, unjudged))
    return found


def queued_groups(directory: RunDirectory, now: float) -> list[QueuedGroup]:
    """Groups that waited in the queue, in order of acceptance."""
    rows = directory.database.read(
        "select id, domain, oldest_version from groups where fate = 'queued' order by closed_at, id"
    )
    return [QueuedGroup(r["id"], r["domain"], r["oldest_version"], (), now) for r in rows]


def accepted_counts(directory: RunDirectory) -> dict[str, int]:
    """c_d: groups ever accepted into the queue, by domain."""
    rows = directory.database.read(
        "select domain, count(*) n from groups where fate in "
        "('queued', 'batched', 'trained', 'evicted', 'stale') group by domain"
    )
    return {row["domain"]: row["n"] for row in rows}


def opened_counts(directory: RunDirectory) -> dict[str, int]:
    """Groups ever opened, by domain: the position in its task stream."""
    rows = directory.database.read("select domain, count(*) n from groups group by domain")
    return {row["domain"]: row["n"] for row in rows}


def pushed_version(directory: RunDirectory) -> int:
    """The version that every server confirmed last; 0 before the first push."""
    return max(_pushes(directory).values(), default=0)


def _judged(directory: RunDirectory, row: object) -> Judged:
    values = dict(row)  # type: ignore[call-overload]
    trajectory = trajectories.load(directory.trajectories.path(values["id"]))
    verdict = values["verdict_json"]
    failure = values["failure_json"]
    return Judged(
        trajectory,
        Verdict.from_json(json.loads(verdict)) if verdict else None,
        Outcome(values["outcome"]),
        Failure.from_json(json.loads(failure)) if failure else None,
    )


def _pushes(directory: RunDirectory) -> dict[int, int]:
    rows = directory.database.read("select step, version from pushes where ok = 1")
    return {row["step"]: row["version"] for row in rows}
