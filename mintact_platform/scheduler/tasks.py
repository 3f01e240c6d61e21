"""Which task a domain works on next: a seeded order over its task set, resumable by a count."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mintact_platform.config import DomainSection
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS, Task
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.seeds import seed_of


class TaskStream:
    """An endless stream over a task set, reshuffled every pass.

    Args:
        tasks: the task set.
        seed: of the run and the domain.
        position: tasks already taken; a resumed run goes on where it stopped.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int, position: int = 0) -> None:
        self.tasks, self.seed, self.position = tasks, seed, position
        self._order: list[int] = []
        self._pass = -1

    def next(self) -> Task:
        """The next task."""
        number, index = divmod(self.position, len(self.tasks))
        if number != self._pass:
            self._order = list(range(len(self.tasks)))
            random.Random(seed_of(self.seed, number)).shuffle(self._order)
            self._pass = number
        self.position += 1
        return self.tasks[self._order[index]]


def task_set(
    registry: Registry, domain: DomainSection, *, split: str | None = None
) -> Sequence[Task]:
    """The tasks of a domain's section, of its own split or of another.

    Raises:
        ConfigurationError: a malformed name, an unknown split, an empty set.
    """
    name, separator, own = domain.tasks.rpartition(":")
    if not separator or own not in SPLITS:
        raise ConfigurationError(
            f"tasks = {domain.tasks!r} names no split", next="write e.g. tasks = 'micro/web:train'"
        )
    target = registry.get("task_sets", name)
    where = f"task set {name!r}"
    params = {"split": split or own, **domain.task_params}
    tasks: Sequence[Task] = parameters.bind(target, params, where=where)()
    if not len(tasks):
        raise ConfigurationError(f"split {split or own!r} holds no task", where=where)
    return tasks
