"""Held-out evaluation of a model, as a run of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from mintact_platform import config as configuration
from mintact_platform.config import RunConfig
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.heldout import HeldOut, held_out
from mintact_platform.scheduler.beginning import forget_failed_start
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.progress import Display
from mintact_platform.scheduler.runtime import Runtime, running
from mintact_platform.scheduler.tasks import task_set
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory


async def evaluate(config: RunConfig, *, runs: Path, registry: Registry, display: Display) -> int:
    """Play `evaluation.episodes` held-out tasks a domain; recorded in `runs/<name>/`.

    Returns:
        0, or 1 when a domain gave no judged episode.
    """
    if not config.evaluation.episodes:
        raise ConfigurationError(
            "no episodes asked for", where="evaluation.episodes", next="add evaluation.episodes=100"
        )
    checked = plan(config, registry, messages=True)
    path = (runs / config.name).absolute()
    forget_failed_start(path)
    directory = RunDirectory.create(
        path,
        config_toml=configuration.dump(config),
        plugins=registry.versions(),
        metadata={"verb": "eval", "seed": str(config.seed)},
    )
    try:
        directory.lock()
        weights = WeightsRef(Path(config.model.path), 0)
        incarnation = directory.begin_incarnation()
        display.message(f"evaluating {player(checked)}")
        async with running(checked, directory, weights, incarnation=incarnation) as runtime:
            results = await held_out(
                runtime.rollouter,
                directory,
                held_out_tasks(checked, config.evaluation.episodes),
                step=0,
                label="eval",
                temperature=config.evaluation.temperature,
            )
            await account(runtime, display)
    finally:
        directory.close()
    tell_masked(results, display)
    return 0 if all(result.episodes for result in results.values()) else 1


def player(checked: Plan) -> str:
    """Who plays, for people."""
    config = checked.config
    if not checked.messages:
        return config.model.path
    return f"{config.rollout.params.get('model', '')} through {config.rollout.engine}".strip()


def tell_masked(results: Mapping[str, HeldOut], display: Display) -> None:
    """Why episodes are masked, one line a domain: the first failure stands for all."""
    for name, found in results.items():
        if (failure := found.failure) is not None:
            why = f"{failure.phase}: {failure.kind}: {failure.message}"
            display.message(f"{name}: {found.masked} masked, the first for {why}")


async def account(runtime: Runtime, display: Display) -> None:
    """Record what a message engine used and cost, and say so; nothing of other engines."""
    if runtime.rollouter.messages is None:
        return
    spent = runtime.rollouter.messages.spent
    now = time.time()
    await runtime.directory.database.write(
        *(
            ledger.metric(f"messages/{name}", "", float(value), now)
            for name, value in asdict(spent).items()
            if value is not None
        )
    )
    display.message(f"used {spent}")


def held_out_tasks(
    checked: Plan, episodes: int, *, split: str | None = None
) -> dict[str, list[Task]]:
    """The first tasks of the evaluation split, repeated when there are too few."""
    chosen = {}
    wanted = split or checked.config.evaluation.split
    for name, section in checked.config.domains.items():
        tasks = task_set(checked.registry, section, where=f"domains.{name}", split=wanted)
        chosen[name] = [tasks[i % len(tasks)] for i in range(episodes)]
    return chosen
