"""The task set `web/sites`: every task of a folder of admitted sites, split by site."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mintact_env_web.agentic.site import WrittenSite, WrittenTask, load, sites_in
from mintact_env_web.synth.tasks import TURNS
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import SPLITS, Task

TENTHS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}
"""Which tenths of all sites a split has; a site keeps its split whatever is added later."""


def sites(*, split: str, sites: str, extended: bool = False) -> Sequence[Task]:
    """All tasks of the sites that belong to a split.

    Args:
        split: `train`, `validation` or `test`.
        sites: folder of admitted sites.
        extended: whether tasks may need the actions of `browser_use_extended`.

    Raises:
        ConfigurationError: no site there, or none that belongs to this split.
    """
    if split not in TENTHS:
        raise ConfigurationError(
            f"unknown split {split!r}", where="web/sites", next=near_match(split, SPLITS)
        )
    root = Path(sites).expanduser()
    folders = sites_in(root)
    found = [
        task_of(site, folder.name, task, split)
        for folder in folders
        if split_of(folder.name) == split and (site := load(folder)).start is not None
        for task in site.tasks
        if extended or all(step.verb != "drag" for step in task.solve)
    ]
    if not found:
        hint = f"{len(folders)} sites are there, a tenth belongs to validation, another to test"
        raise ConfigurationError(
            f"no admitted site belongs to {split!r}",
            where=str(root),
            next=hint if folders else "mintact web write makes some",
        )
    return found


def split_of(name: str) -> str:
    """The split that a site belongs to, by its name."""
    tenth = hashlib.blake2b(name.encode(), digest_size=4).digest()[0] % 10
    return next(split for split, tenths in TENTHS.items() if tenth in tenths)


def task_of(site: WrittenSite, folder: str, task: WrittenTask, split: str = "train") -> Task:
    """A task of a written site, as the platform knows it."""
    capability = site.triple.capability if site.triple else ""
    return Task(
        id=f"web/sites/{folder}/{task.name}",
        goal=task.goal,
        domain="web",
        split=split,
        params={"site": folder, "task": task.name},
        seed=0,
        max_turns=max(TURNS[task.level], 3 * len(task.solve)),
        tags=(capability,) if capability else (),
        template=f"{folder}/{task.name}",
    )
