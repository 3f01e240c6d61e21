"""Tasks for tools: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task


def from_file(*, path: str, split: str, domain: str = "tools") -> Sequence[Task]:
    """The tasks of a JSONL file that belong to a split.

    A line holds the fields of a `Task`; `id` and `goal` are needed. `params` may hold `setup`, a
    list of calls `{name, arguments}` made before the episode, and `check`, a call made after it.

    Args:
        path: of the file.
        split: which tasks; a line that names none belongs to `train`.
        domain: of lines that name none.

    Raises:
        ConfigurationError: naming the line that is no task.
    """
    tasks: dict[str, Task] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            task = Task.from_json({"domain": domain, **json.loads(line)})
        except ConfigurationError as error:
            raise ConfigurationError(error.what, where=where, next=error.next) from None
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"no task: {error}", where=where) from None
        if task.id in tasks:
            raise ConfigurationError(f"task {task.id!r} stands here again", where=where)
        tasks[task.id] = task
    return [task for task in tasks.values() if task.split == split]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot be read: {error}", where=path) from None
