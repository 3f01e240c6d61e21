"""Held-out episodes: the current weights on tasks never trained on, outside the ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mintact_platform.errors import first_cause
from mintact_platform.records.outcome import Failure
from mintact_platform.records.task import Task
from mintact_platform.rollouts.episode import EpisodeKey
from mintact_platform.rollouts.rollouter import Judged, Rollouter
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Successes over judged episodes of one domain; masked ones are counted apart.

    Attributes:
        successes: by the judge.
        episodes: judged ones.
        masked: the others.
        failure: why the first of them is masked.
    """

    successes: int
    episodes: int
    masked: int
    failure: Failure | None = field(default=None, compare=False)

    @property
    def rate(self) -> float:
        """Success rate over judged episodes, 0.0 without any."""
        return self.successes / self.episodes if self.episodes else 0.0


async def held_out(
    rollouter: Rollouter,
    directory: RunDirectory,
    tasks: Mapping[str, Sequence[Task]],
    *,
    step: int,
    label: str,
    temperature: float | None = None,
    retries: int = 0,
) -> dict[str, HeldOut]:
    """Play one episode a task, judge it, record it in `evaluations`.

    Args:
        rollouter: plays and judges.
        directory: where episodes are recorded.
        tasks: held-out tasks by domain.
        step: trainer step of the weights.
        label: `before`, `progress`, `after`, …
        temperature: None takes the rollout's; 0 is greedy.
        retries: times a failed episode is played again; the last one is recorded.
    """

    async def one(domain: str, task: Task) -> Judged:
        for attempt in range(retries + 1):
            key = EpisodeKey(rollouter.ids(), attempt=attempt)
            trajectory = await rollouter.play(domain, task, key, temperature=temperature)
            if trajectory.outcome.counts:
                break
        path = await asyncio.to_thread(directory.trajectories.save, trajectory)
        judged = await rollouter.judge(domain, trajectory)
        await directory.database.write(
            ledger.add_evaluation(
                trajectory,
                path,
                step=step,
                domain=domain,
                label=label,
                verdict=judged.verdict,
                reward=judged.reward if judged.live else None,
            )
        )
        return judged

    async def domain_of(domain: str, chosen: Sequence[Task]) -> HeldOut:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(domain, task)) for task in chosen]
        judged = [task.result() for task in running]
        live = [j for j in judged if j.live]
        failures = (j.failure for j in judged if j.failure is not None)
        masked = len(judged) - len(live)
        return HeldOut(sum(j.success for j in live), len(live), masked, next(failures, None))

    try:
        async with asyncio.TaskGroup() as group:
            started = {d: group.create_task(domain_of(d, chosen)) for d, chosen in tasks.items()}
    except BaseExceptionGroup as failed:
        raise first_cause(failed) from failed
    return {domain: task.result() for domain, task in started.items()}


def missing_tasks(
    directory: RunDirectory,
    tasks: Mapping[str, Sequence[Task]],
    *,
    step: int,
    label: str,
    masked: bool = False,
) -> dict[str, list[Task]]:
    """What an evaluation that was cut short has not recorded yet.

    Args:
        directory: where it is recorded.
        tasks: all of it, by domain.
        step: trainer step of the weights.
        label: of the evaluation.
        masked: whether episodes that could not be judged are missing too.
    """
    rows = directory.database.read(
        "select domain, task from evaluations where step = ? and label = ? "
        "and (reward is not null or not ?)",
        (step, label, masked),
    )
    recorded = Counter((row["domain"], row["task"]) for row in rows)
    missing: dict[str, list[Task]] = {}
    for domain, chosen in tasks.items():
        missing[domain] = []
        for task in chosen:
            if recorded[domain, task.id]:
                recorded[domain, task.id] -= 1
            else:
                missing[domain].append(task)
    return missing


def recorded(directory: RunDirectory, *, step: int, label: str) -> dict[str, HeldOut]:
    """An evaluation as recorded, by domain, whichever process played which part of it."""
    rows = directory.database.read(
        "select domain, reward is not null live, "
        "reward is not null and json_extract(verdict_json, '$.label') = 'success' won "
        "from evaluations where step = ? and label = ?",
        (step, label),
    )
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["domain"], []).append((row["live"], row["won"]))
    return {
        domain: HeldOut(
            sum(won for _, won in some),
            sum(live for live, _ in some),
            sum(not live for live, _ in some),
        )
        for domain, some in found.items()
    }
