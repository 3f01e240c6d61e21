"""Which task a domain works on next: a seeded order over its task set, resumable by a count."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Sequence
from typing import Any

from mintact_platform.config import DomainSection
from mintact_platform.errors import ConfigurationError, MintactError, PluginError, about
from mintact_platform.records.task import SPLITS, Task
from mintact_platform.registry import parameters
from mintact_platform.registry.lines import one_line
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.seeds import seed_of

_ALIKE = 0.75
"""How like a split a word has to be to be meant as one."""


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


def named_split(text: str) -> tuple[str, str]:
    """Name and split of `micro/web:train`.

    Raises:
        ConfigurationError: no split, with the near match.
    """
    name, separator, split = text.rpartition(":")
    if separator and split in SPLITS:
        return name, split
    close = difflib.get_close_matches(split, SPLITS, n=1)
    hint = f"did you mean '{name}:{close[0]}'?" if separator and close else ""
    raise ConfigurationError(
        f"{text!r} names no split",
        next=hint or f"write e.g. '{text.partition(':')[0] or 'micro/web'}:train'",
    )


def means_split(registry: Registry, text: str) -> bool:
    """Whether the part after the last colon is meant as a split, misspelt or not.

    A member of a family may have a colon of its own: `gym/<module>:<id>`.
    """
    name, separator, split = text.rpartition(":")
    if not separator or name in registry.names("task_sets"):
        return bool(separator)
    close = difflib.get_close_matches(split, SPLITS, n=1, cutoff=_ALIKE)
    return registry.knows("task_sets", name) and bool(close)


def own_tasks(
    registry: Registry, domain: DomainSection, *, where: str, split: str | None = None
) -> Sequence[Task]:
    """The tasks of a domain's section, refused where they are another environment's.

    An environment without a task set of its own name may use any.

    Raises:
        ConfigurationError: see `task_set`; or another environment's tasks.
        PluginError: see `task_set`.
    """
    with about(f"{where}.tasks"):
        name, own = named_split(domain.tasks)
        known = registry.knows("environments", name)
        if name != domain.environment and known:
            if registry.knows("task_sets", domain.environment):
                raise ConfigurationError(
                    f"task set {name!r} is another environment's",
                    next=f"did you mean '{domain.environment}:{own}'?",
                )
    return task_set(registry, domain, where=where, split=split)


def task_set(
    registry: Registry, domain: DomainSection, *, where: str, split: str | None = None
) -> Sequence[Task]:
    """The tasks of a domain's section, of its own split or of another.

    Args:
        registry: installed plugins.
        domain: its section.
        where: the section's name, for errors.
        split: None takes the one that `tasks` names.

    Raises:
        ConfigurationError: a malformed name, an unknown split, a wrong parameter, an empty set.
        PluginError: a name nobody registers, or what stands behind it gives no tasks.
    """
    with about(f"{where}.tasks"):
        name, own = named_split(domain.tasks)
        target = registry.get("task_sets", name)
    wanted, said = split or own, f"task set {name!r}"
    with about(f"{where}.task_params"):
        if "split" in domain.task_params:
            raise ConfigurationError("the split stands in tasks", next="leave split out here")
        params = {"split": wanted, **domain.task_params}
        factory = parameters.bind(target, params, where=said)
    with about(f"{where}.tasks"):
        tasks = made_tasks(factory, where=said)
        if not len(tasks):
            raise ConfigurationError(f"split {wanted!r} holds no task", where=said)
    return tasks


def made_tasks(factory: Callable[[], Any], *, where: str) -> Sequence[Task]:
    """What a task set gives, as far as its length and its first task tell.

    Raises:
        MintactError: of its own.
        PluginError: anything else that it raises, or it gives something else, naming `where`.
    """
    offers = ("__len__", "__getitem__")
    tasks: Sequence[Task] = parameters.made(factory, where=where, offers=offers)
    try:
        first = tasks[0] if len(tasks) else None
    except (MintactError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a mapping, or a set that reads its files when it is asked
        what = f"its first task cannot be read: {one_line(error)}"
        raise PluginError(what, where=where) from error
    if first is not None and not isinstance(first, Task):
        what = f"holds a {type(first).__name__}, not a mintact_platform.Task"
        raise PluginError(what, where=where)
    return tasks
