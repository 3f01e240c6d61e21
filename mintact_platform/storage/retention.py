"""What a run directory holds that nothing refers to, and its removal.

Nothing but references decide: an image stays while one trajectory shows it, however old.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.files import ASIDE
from mintact_platform.storage.trajectories import load_record


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files that nothing refers to.

    Attributes:
        images: that no trajectory shows: their rollout was killed before it was recorded.
        trajectories: that run.db does not know, for the same reason.
        unfinished: files whose writer died.
        bytes: of all of them.
    """

    images: tuple[Path, ...]
    trajectories: tuple[Path, ...]
    unfinished: tuple[Path, ...]
    bytes: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.images, *self.trajectories, *self.unfinished)


def references(directory: RunDirectory) -> Counter[str]:
    """How many recorded trajectories show or train on each image, by digest.

    Raises:
        StorageError: a trajectory cannot be read; then nothing is known to be unreferenced.
    """
    counts: Counter[str] = Counter()
    for row in _recorded(directory):
        record = load_record(directory.path / row)
        digests = {*record["image_extensions"], *record.get("final_images", ())}
        for turn in record["turns"]:
            digests.update(turn["images"])
        for segment in record["segments"]:
            digests.update(image["digest"] for image in segment["images"])
        counts.update(digests)
    return counts


def leftovers(directory: RunDirectory) -> Leftovers:
    """Look for what nothing refers to. Rollouts that still run refer to files nobody knows of yet.

    Raises:
        StorageError: a recorded trajectory cannot be read.
    """
    known = {directory.path / row for row in _recorded(directory)}
    counts = references(directory)
    images = _files(directory.path / "images")
    trajectories = _files(directory.path / "trajectories")
    unshown = tuple(p for p in images if not _aside(p) and p.stem not in counts)
    unknown = tuple(p for p in trajectories if not _aside(p) and p not in known)
    unfinished = tuple(p for p in (*images, *trajectories) if _aside(p))
    size = sum(path.stat().st_size for path in (*unshown, *unknown, *unfinished))
    return Leftovers(unshown, unknown, unfinished, size)


def prune(directory: RunDirectory) -> Leftovers:
    """Remove what nothing refers to; returns what was removed.

    Raises:
        StorageError: the run is being trained, or a recorded trajectory cannot be read.
    """
    directory.lock()
    found = leftovers(directory)
    for path in found.paths:
        path.unlink()
    return found


def _recorded(directory: RunDirectory) -> list[str]:
    rows = directory.database.read(
        "SELECT path FROM trajectories UNION SELECT path FROM evaluations ORDER BY path"
    )
    return [row["path"] for row in rows]


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/*") if path.is_file())


def _aside(path: Path) -> bool:
    return path.name.startswith(ASIDE)
