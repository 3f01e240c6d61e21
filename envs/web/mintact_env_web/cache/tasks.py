"""The task set `web/cache`: the tasks that lie beside recorded sites.

Each site directory has a `tasks.jsonl`, one task a line:

    {"id": "price", "goal": "What does the green tea cost?", "check": {"answer": "4.80"},
     "script": [{"action": "click", "coordinate": [640, 220]},
                {"action": "stop", "response": "It costs 4.80."}]}

`script` solves the task and is what `mintact web validate` replays; without one, `script.jsonl` of
the recording is taken. `split`, `max_turns` and `tags` may be given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintact_env_web.cache.checks import validate_check
from mintact_env_web.cache.fields import digest
from mintact_env_web.cache.scripts import SCRIPT, Call, read_script
from mintact_env_web.cache.store import read_lines, sites_in
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import SPLITS, Task

TASKS = "tasks.jsonl"
VALIDATED = "validated.json"
_KEYS = ("id", "goal", "check", "script", "split", "max_turns", "tags")


@dataclass(frozen=True)
class Solvable:
    """A task and the calls that solve it.

    Attributes:
        task: for the environment.
        script: calls; empty when none is known.
    """

    task: Task
    script: tuple[Call, ...]


def cache(
    *, split: str, sites: str, validated: bool = True, held_out: float = 0.0
) -> Sequence[Task]:
    """Tasks of `web/cache`.

    Args:
        split: `train`, `validation` or `test`.
        sites: directory of recorded sites, the same as the environment's.
        validated: only tasks that replayed offline in the last `mintact web validate`.
        held_out: share of sites, 0 to 0.5, whose tasks are `validation`, and as many `test`, by
            the site's name; a task's own `split` wins.

    Raises:
        ConfigurationError: no recorded sites, or none of them has a usable task.
    """
    directory = Path(sites).expanduser()
    where = f"web/cache, sites = {sites!r}"
    if not 0 <= held_out <= 0.5:
        raise ConfigurationError(f"held_out must be 0 to 0.5, got {held_out}", where=where)
    if split not in SPLITS:
        raise ConfigurationError(
            f"unknown split {split!r}", where=where, next=near_match(split, SPLITS)
        )
    found = sites_in(directory)
    if not found:
        raise ConfigurationError(
            "no recorded sites", where=where, next="record one with `mintact web record`"
        )
    tasks = [
        one.task
        for site in found
        for one in tasks_of(site, default=_split_of(site.name, held_out))
        if not validated or _passed(site).get(one.task.id) is True
    ]
    if not tasks:
        advice = f"run `mintact web validate {sites}`" if validated else f"write {TASKS} files"
        raise ConfigurationError("no usable tasks", where=where, next=advice)
    return [task for task in tasks if task.split == split]


def tasks_of(site: Path, default: str = "train") -> list[Solvable]:
    """The tasks beside a recorded site.

    Args:
        site: its directory.
        default: split of tasks that name none.

    Raises:
        ConfigurationError: names the line.
    """
    path = site / TASKS
    recorded = site / SCRIPT
    fallback = read_script(recorded) if recorded.exists() else []
    tasks = []
    for number, line in enumerate(read_lines(path), 1):
        tasks.append(_task(line, site, default, fallback, f"{path}:{number}"))
    return tasks


def _task(
    line: Mapping[str, Any], site: Path, default: str, fallback: Sequence[Call], where: str
) -> Solvable:
    for key in line:
        if key not in _KEYS:
            raise ConfigurationError(
                f"unknown key {key!r}", where=where, next=near_match(key, _KEYS)
            )
    for key in ("id", "goal"):
        if not isinstance(line.get(key), str):
            raise ConfigurationError(f"{key!r} must be text", where=where)
    params: dict[str, Any] = {"site": site.name}
    if "check" in line:
        validate_check(line["check"], where)
        params["check"] = line["check"]
    name = f"web/cache/{site.name}/{line['id']}"
    task = Task(
        id=name,
        goal=line["goal"],
        domain="web",
        split=line.get("split", default),
        params=params,
        seed=0,
        max_turns=line.get("max_turns"),
        tags=tuple(line.get("tags", ())),
        template=name,
    )
    return Solvable(task, tuple(line.get("script", fallback)))


def _split_of(name: str, held_out: float) -> str:
    """The split of a site by its name, so that new sites move no old one."""
    place = int(digest(name.encode())[:8], 16) / 2**32
    if place < held_out:
        return "validation"
    return "test" if place < 2 * held_out else "train"


def _passed(site: Path) -> dict[str, Any]:
    """What the last validation said, by task."""
    path = site / VALIDATED
    if not path.exists():
        return {}
    try:
        told = json.loads(path.read_text())["tasks"]
        return {str(name): reason == "" for name, reason in told.items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ConfigurationError(
            "cannot be read", where=str(path), next="run `mintact web validate` again"
        ) from None
