"""A task: what the agent is asked to do, in which domain, from which seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mintact_platform.errors import ConfigurationError, near_match

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a task set; a line of a tasks file.

    Attributes:
        id: unique and stable over versions of the task set.
        goal: the instruction the agent reads.
        domain: `mobile`, `desktop`, `web`, `tools`, or a user's own.
        split: `train`, `validation` or `test`.
        params: what the environment needs to set the task up; JSON values.
        seed: seed of the environment's reset; None leaves it to the run.
        max_turns: turn limit of this task; None takes the domain's.
        tags: free labels for reports.
        template: distinct tasks differ in it; seed, style and names do not count.
    """

    id: str
    goal: str
    domain: str
    split: str = "train"
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    max_turns: int | None = None
    tags: tuple[str, ...] = ()
    template: str | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ConfigurationError(
                f"unknown split {self.split!r}",
                where=f"task {self.id}",
                next=near_match(self.split, SPLITS),
            )

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values (tuples become lists)."""
        return {**asdict(self), "params": dict(self.params), "tags": list(self.tags)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Task:
        """Read a task, refusing unknown keys with the near match."""
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise ConfigurationError(
                    f"unknown key {key!r}",
                    where=f"task {values.get('id', '?')}",
                    next=near_match(key, known),
                )
        return cls(**{**values, "tags": tuple(values.get("tags", ()))})
