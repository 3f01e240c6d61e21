"""The trainer's checkpoints: complete when their manifest is there, sound when its hashes hold."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mintact_platform.errors import CheckpointCorrupt
from mintact_platform.storage.files import write_aside

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        path: its directory, `checkpoints/<step>`.
        step: the last step it contains.
        incarnation: of the scheduler whose trainer wrote it.
        files: blake2b by file name, relative to the directory.
    """

    path: Path
    step: int
    incarnation: int
    files: Mapping[str, str]

    def verify(self) -> None:
        """Read every file and compare its hash.

        Raises:
            CheckpointCorrupt: a file is missing or its bytes changed.
        """
        for name, recorded in self.files.items():
            file = self.path / name
            if not file.is_file():
                raise _corrupt(f"{name} is missing", self.path)
            if _hash(file, size=len(recorded) // 2) != recorded:
                raise _corrupt(f"the bytes of {name} changed", self.path)


def seal(path: Path, *, step: int, incarnation: int) -> Checkpoint:
    """Hash the files of a checkpoint and write its manifest, which makes it complete."""
    files = {
        file.relative_to(path).as_posix(): _hash(file)
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != MANIFEST
    }
    manifest = {"step": step, "incarnation": incarnation, "files": files}
    write_aside(path / MANIFEST, json.dumps(manifest, indent=1).encode())
    return Checkpoint(path, step, incarnation, files)


def read(path: Path) -> Checkpoint:
    """A checkpoint by its directory, hashes unread.

    Raises:
        CheckpointCorrupt: no manifest, or one that cannot be read.
    """
    try:
        values = json.loads((path / MANIFEST).read_bytes())
        files = {str(name): str(digest) for name, digest in values["files"].items()}
        return Checkpoint(path, int(values["step"]), int(values["incarnation"]), files)
    except FileNotFoundError:
        raise _corrupt("it has no manifest, so it is incomplete", path) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _corrupt(f"its manifest cannot be read ({error})", path) from None


def complete(root: Path) -> list[Checkpoint]:
    """All complete checkpoints under `root`, oldest first; incomplete ones are passed over."""
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        try:
            found.append(read(path))
        except CheckpointCorrupt:
            continue
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def retain(root: Path, *, keep: int) -> list[Path]:
    """Remove all but the newest `keep` complete checkpoints, and what is incomplete before those.

    Returns:
        The directories removed.
    """
    kept = complete(root)[-keep:]
    if not kept:
        return []
    keeping, first = {checkpoint.path for checkpoint in kept}, kept[0].step
    removed = [
        path
        for path in sorted(root.iterdir())
        if path.is_dir() and path not in keeping and path.name.isdigit() and int(path.name) < first
    ]
    for path in removed:
        # without its manifest first, a half-removed checkpoint is incomplete, never corrupt
        (path / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(path)
    return removed


def _hash(file: Path, *, size: int = 16) -> str:
    state = hashlib.blake2b(digest_size=min(max(size, 1), 64))
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def _corrupt(what: str, path: Path) -> CheckpointCorrupt:
    return CheckpointCorrupt(what, where=str(path), next="resume from an older checkpoint")
