"""Held-out evaluation of a model, as a run of its own."""

from __future__ import annotations

from pathlib import Path

from mintact_platform import config as configuration
from mintact_platform.config import RunConfig
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.heldout import held_out
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.progress import Display
from mintact_platform.scheduler.runtime import running
from mintact_platform.scheduler.tasks import task_set
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
    checked = plan(config, registry)
    directory = RunDirectory.create(
        (runs / config.name).absolute(),
        config_toml=configuration.dump(config),
        plugins=registry.versions(),
        metadata={"verb": "eval", "seed": str(config.seed)},
    )
    try:
        directory.lock()
        weights = WeightsRef(Path(config.model.path), 0)
        incarnation = directory.begin_incarnation()
        display.message(f"evaluating {config.model.path}")
        async with running(checked, directory, weights, incarnation=incarnation) as runtime:
            results = await held_out(
                runtime.rollouter,
                directory,
                held_out_tasks(checked, config.evaluation.episodes),
                step=0,
                label="eval",
                temperature=config.evaluation.temperature,
            )
    finally:
        directory.close()
    return 0 if all(result.episodes for result in results.values()) else 1


def held_out_tasks(
    checked: Plan, episodes: int, *, split: str | None = None
) -> dict[str, list[Task]]:
    """The first tasks of the evaluation split, repeated when there are too few."""
    chosen = {}
    wanted = split or checked.config.evaluation.split
    for name, section in checked.config.domains.items():
        tasks = task_set(checked.registry, section, split=wanted)
        chosen[name] = [tasks[i % len(tasks)] for i in range(episodes)]
    return chosen
