"""Files that appear whole or not at all: written aside, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ASIDE = ".aside-"
"""Prefix of files that are still being written."""


def write_aside(path: Path, data: bytes) -> None:
    """Write `data` next to `path` and rename it there, replacing what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(prefix=ASIDE, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
