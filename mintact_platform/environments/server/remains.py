"""What a worker leaves on disk: its directory, which goes, and its log, kept if it failed."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import uuid
from collections import deque
from pathlib import Path

KEPT_LOGS = 20
_log = logging.getLogger(__name__)


class Logs:
    """The logs of a server's workers.

    Args:
        directory: where they are; those of quarantined environments go to `quarantine/` in it.
        keep: logs of failed workers that stay.
    """

    def __init__(self, directory: Path, keep: int = KEPT_LOGS) -> None:
        self.directory = directory
        self._keep = keep
        self._kept: deque[Path] = deque()

    def path(self, worker: str) -> Path:
        """The log of a worker that runs."""
        return self.directory / f"{worker}.log"

    def ended(self, log: Path, *, failed: bool) -> None:
        """Delete the log of a worker that ended well; else keep it, and forget the oldest."""
        if not failed:
            log.unlink(missing_ok=True)
            return
        self._kept.append(log)
        if len(self._kept) > self._keep:
            self._kept.popleft().unlink(missing_ok=True)

    def quarantine(self, name: str, tail: str, why: str) -> Path:
        """Keep the end of a log in a place of its own, under a first line that says why."""
        target = self.directory / "quarantine" / f"{name}.log"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{why}\n\n{tail}\n", errors="replace")
        return target


def remove(directory: Path) -> bool:
    """Delete a directory, also one that was made unwritable; whether it is gone.

    Nothing outside it is touched, not even its parent's permissions.
    """
    if directory.is_symlink():
        directory.unlink()
    with contextlib.suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)
    if not os.path.lexists(directory):
        return True
    _flatten(directory)
    gone = not os.path.lexists(directory)
    if not gone:
        _log.warning("cannot delete %s: remove it by hand", directory)
    return gone


def _flatten(directory: Path) -> None:
    """Delete a tree of any depth and mode: every folder moves to the top, then is emptied."""
    waiting = [str(directory)]
    try:
        while waiting:
            folder = waiting.pop()
            os.chmod(folder, stat.S_IRWXU)
            with os.scandir(folder) as entries:
                inside = list(entries)
            for entry in inside:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, stat.S_IRWXU)
                waiting.append(os.path.join(directory, uuid.uuid4().hex))
                os.rename(entry.path, waiting[-1])
            if folder != str(directory):
                os.rmdir(folder)
        os.rmdir(directory)
    except OSError:
        return
