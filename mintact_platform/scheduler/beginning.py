"""A run that never began leaves its name free."""

from __future__ import annotations

import shutil
from pathlib import Path

from mintact_platform.storage.directory import RunDirectory


def forget_failed_start(path: Path) -> None:
    """Remove a run that never got as far as one group or evaluation; its name is free again."""
    if not (path / "run.db").is_file():
        return
    directory = RunDirectory.open(path, writable=True)
    try:
        directory.lock()  # another scheduler may be starting in it right now
        begun = directory.database.read(
            "select (select count(*) from groups) + (select count(*) from evaluations) n"
        )[0]["n"]
        metrics = directory.database.read("select count(*) n from metrics")[0]["n"]
    finally:
        directory.close()
    if not begun and not metrics:
        shutil.rmtree(path)
