"""Tasks of an OpenEnv server: one a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mintact_platform.records.task import SPLITS, Task

_GOAL = "Act so that the sum of all rewards becomes large."


def seeds(
    *,
    split: str,
    count: int = 256,
    name: str = "openenv",
    goal: str = _GOAL,
    domain: str = "tools",
    reset: Mapping[str, Any] | None = None,
) -> Sequence[Task]:
    """A task a seed, for servers that make their episodes from it.

    Args:
        split: its seeds are those of no other split.
        count: how many.
        name: of the server's environment; it begins the ids and is the tasks' template.
        goal: what the agent is told.
        domain: of the tasks.
        reset: further values that the server's `reset` takes.
    """
    first = (SPLITS.index(split) + 1) * 1_000_000
    params = {} if reset is None else {"reset": dict(reset)}
    return [
        Task(f"{name}/{first + k}", goal, domain, split, params, seed=first + k, template=name)
        for k in range(count)
    ]
