"""Rollouts without training: trajectories of any engine, judged and recorded, as a run of its own.

What is collected can be read, judged again, and learned from: see `datasets.rollouts`.
"""

from __future__ import annotations

from pathlib import Path

from mintact_platform import config as configuration
from mintact_platform.config import RunConfig
from mintact_platform.datasets.rollouts import SPACE
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.heldout import held_out, missing_tasks
from mintact_platform.rollouts.seeds import seed_of
from mintact_platform.scheduler.beginning import forget_failed_start
from mintact_platform.scheduler.evaluate import account, player, tell_masked
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.progress import Display
from mintact_platform.scheduler.runtime import running
from mintact_platform.scheduler.tasks import TaskStream, task_set
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import get_meta

LABEL = "rollout"
"""Of the evaluation that a collection is recorded as."""


async def collect(
    config: RunConfig,
    *,
    count: int,
    split: str | None,
    runs: Path,
    resume: bool,
    registry: Registry,
    display: Display,
) -> int:
    """Play `count` tasks a domain; recorded in `runs/<name>/`.

    Args:
        config: the run.
        count: rollouts a domain.
        split: None takes the one that the domain's `tasks` names.
        runs: where run directories are.
        resume: go on with an existing collection, up to a larger `count` too.
        registry: installed plugins.
        display: told about progress.

    Returns:
        0, or 1 when a domain gave no judged rollout.

    Raises:
        StorageError: it exists without `resume`, or is missing with it.
        ConfigurationError: it was begun with another run file.
    """
    checked = plan(config, registry, messages=True)
    tasks = chosen_tasks(checked, count, split)
    directory = _directory(checked, runs, resume=resume)
    try:
        directory.lock()
        tasks = missing_tasks(directory, tasks, step=0, label=LABEL)
        incarnation = directory.begin_incarnation()
        weights = WeightsRef(Path(config.model.path), 0)
        left = "" if not resume else f", {sum(map(len, tasks.values()))} of them now"
        display.message(f"{count} rollouts a domain by {player(checked)}{left}")
        async with running(checked, directory, weights, incarnation=incarnation) as runtime:
            results = await held_out(
                runtime.rollouter,
                directory,
                tasks,
                step=0,
                label=LABEL,
                retries=config.rollout.retries,
            )
            await account(runtime, display)
    finally:
        directory.close()
    for name, found in results.items():
        display.message(f"{name}: {found.successes} of {found.episodes} succeeded")
    tell_masked(results, display)
    return 0 if all(results[name].episodes for name in tasks if tasks[name]) else 1


def _directory(checked: Plan, runs: Path, *, resume: bool) -> RunDirectory:
    config, path = checked.config, (runs / checked.config.name).absolute()
    written = configuration.dump(config)
    if not resume:
        forget_failed_start(path)
        return RunDirectory.create(
            path,
            config_toml=written,
            plugins=checked.registry.versions(),
            metadata={"verb": "rollout", "seed": str(config.seed), **spaces(checked)},
        )
    directory = RunDirectory.open(path, writable=True)
    if directory.config_toml != written or get_meta(directory.database, "verb") != "rollout":
        directory.close()
        raise ConfigurationError(
            "was begun with another run file, or by another verb",
            where=str(path),
            next="collect under another name; several runs can be learned from together",
        )
    return directory


def chosen_tasks(checked: Plan, count: int, split: str | None) -> dict[str, list[Task]]:
    """Tasks of each domain in the run's seeded order, every one once before any comes again."""
    chosen = {}
    for name, section in checked.config.domains.items():
        tasks = task_set(checked.registry, section, where=f"domains.{name}", split=split)
        stream = TaskStream(tasks, seed=seed_of(checked.config.seed, name))
        chosen[name] = [stream.next() for _ in range(count)]
    return chosen


def spaces(checked: Plan) -> dict[str, str]:
    """The registered name of each domain's action space, as rows of `meta`."""
    return {
        SPACE + name: section.action_space.name
        if section.action_space is not None
        else checked.domains[name].space.name
        for name, section in checked.config.domains.items()
    }
