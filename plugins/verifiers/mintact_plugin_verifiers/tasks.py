"""The rows of a verifiers environment's datasets as tasks: `verifiers/<id>:train` and `:test`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from mintact_platform.errors import ConfigurationError, MintactError
from mintact_platform.records.task import Task
from mintact_plugin_verifiers.loading import load
from mintact_plugin_verifiers.messages import words

_MODULE = "mintact_plugin_verifiers.tasks"
_SECONDS = 600.0
_PARTS = {"train": "train", "test": "eval"}
"""Our split and the dataset that verifiers has for it."""


def tasks(
    *,
    id: str,
    split: str,
    args: dict[str, Any] | None = None,
    count: int | None = None,
    heldout: int = 0,
    domain: str = "tools",
    python: str | None = None,
) -> Sequence[Task]:
    """One task a row; its goal is the row's prompt.

    Args:
        id: as verifiers knows it.
        split: `train` is the environment's dataset, `test` its evaluation dataset; it has no
            third.
        args: as for the environment; both must be given the same.
        count: the first so many of them, None for all.
        heldout: the first so many rows of the dataset are the `test` split, and are not trained
            on: for environments without an evaluation dataset.
        domain: of the tasks.
        python: interpreter that has verifiers, where this one has not.

    Raises:
        ConfigurationError: no such dataset, or the environment cannot be loaded.
    """
    if split not in _PARTS:
        raise ConfigurationError(
            f"verifiers environments have no split {split!r}", next=f"use {' or '.join(_PARTS)}"
        )
    asked = {"id": id, "split": split, "args": args, "count": count, "heldout": heldout}
    if python not in (None, sys.executable):
        return _from(str(python), {**asked, "domain": domain})
    environment = load(id, args or {})
    part = "train" if heldout else _PARTS[split]
    rows = environment.rows(part)
    numbers = range(len(rows))
    if heldout:
        numbers = numbers[:heldout] if split == "test" else numbers[heldout:]
    return [
        Task(
            f"verifiers/{id}/{part}/{k}",
            words(environment.prompt(rows[k])) or f"example {k} of {id}",
            domain,
            split,
            params={"part": part, "row": k},
        )
        for k in numbers[:count]
    ]


def _from(python: str, asked: dict[str, Any]) -> list[Task]:
    command = [python, "-m", _MODULE, json.dumps(asked)]
    where = f"interpreter {python!r}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"cannot list tasks: {error}", where=where) from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigurationError(
            f"cannot list tasks: {lines[-1]}",
            where=where,
            next="it needs mintact-platform, mintact-plugin-verifiers and verifiers",
        )
    # an import may print; the tasks are the last line
    return [Task.from_json(task) for task in json.loads(done.stdout.strip().splitlines()[-1])]


def _main(asked: str) -> int:
    """Print the tasks as one line of JSON; exit code 1 with the reason on stderr."""
    try:
        found = tasks(**json.loads(asked))
    except MintactError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{json.dumps([task.to_json() for task in found])}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
