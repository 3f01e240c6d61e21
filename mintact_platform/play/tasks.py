"""What is played: the tasks of a set one after the other, or a goal of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS, Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.scheduler.tasks import made_tasks, means_split, named_split


class Tasks(Protocol):
    """A supply of tasks that does not end."""

    def next(self) -> Task:
        """The next task."""
        ...


@dataclass
class SetTasks:
    """The tasks of a set in order, from a chosen one on, round and round."""

    tasks: Sequence[Task]
    position: int = 0

    def next(self) -> Task:
        """The next task."""
        task = self.tasks[self.position % len(self.tasks)]
        self.position += 1
        return task


@dataclass
class FreeTasks:
    """One goal under one seed after the other; without a goal, the environment may tell one."""

    environment: str
    goal: str = ""
    seed: int = 0

    def next(self) -> Task:
        """The next task."""
        seed, self.seed = self.seed, self.seed + 1
        return Task(f"{self.environment}/seed-{seed}", self.goal, "", seed=seed)


def choose_tasks(
    registry: Registry,
    environment: str,
    *,
    tasks: str | None = None,
    task: str | None = None,
    goal: str | None = None,
    seed: int | None = None,
) -> Tasks:
    """What the command line asks for.

    Args:
        registry: installed plugins.
        environment: its name; a task set of the same name is what is played by default.
        tasks: a task set, `NAME` or `NAME:split`.
        task: id of the task to begin with.
        goal: a goal of one's own instead of a task set.
        seed: without a task set, the first episode's seed.

    Raises:
        ConfigurationError: an unknown task or split, an empty set, a goal beside a task set.
        PluginNotFound: no task set of that name.
    """
    if goal is not None and (tasks or task):
        raise ConfigurationError(
            "a goal of your own has no task set", next="leave out --goal, or --tasks and --task"
        )
    free = goal is not None or (seed is not None and not tasks and not task)
    if not free and not tasks and registry.knows("task_sets", environment):
        tasks = environment
    if free or (not tasks and not task):
        return FreeTasks(environment, goal or "", seed or 0)
    if not tasks:
        raise ConfigurationError(
            f"no task set named {environment!r} to find {task!r} in", next="name one with --tasks"
        )
    return _from_set(registry, tasks, task)


def _from_set(registry: Registry, wanted: str, task: str | None) -> Tasks:
    name, separator, split = wanted.rpartition(":")
    if means_split(registry, wanted):
        named_split(wanted)
    elif not separator or split not in SPLITS:
        name, split = wanted, ""
    if task is None:
        return SetTasks(_split(registry, name, split or "train"))
    for candidate in (split,) if split else SPLITS:
        try:
            found = _split(registry, name, candidate)
        except ConfigurationError:
            continue
        for position, one in enumerate(found):
            if one.id == task:
                return SetTasks(found, position)
    example = _split(registry, name, split or "train")[0].id
    raise ConfigurationError(
        f"no task {task!r}",
        where=f"task set {name!r}",
        next=f"e.g. {example!r}; `mintact tasks {name} --split {split or 'train'}` lists them",
    )


def _split(registry: Registry, name: str, split: str) -> Sequence[Task]:
    where = f"task set {name!r}"
    target = registry.get("task_sets", name)
    tasks = made_tasks(bind(target, {"split": split}, where=where), where=where)
    if not len(tasks):
        raise ConfigurationError(f"split {split!r} holds no task", where=where)
    return tasks
