"""Recorded rollouts as mining sees them: a screenshot, what was done, the next screenshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintact_platform.dashboard.history import History
from mintact_platform.dashboard.samples import words
from mintact_platform.errors import StorageError
from mintact_platform.storage.trajectories import load_record


@dataclass(frozen=True, slots=True)
class Picture:
    """A stored screenshot: its digest and its extension."""

    digest: str
    extension: str


@dataclass(frozen=True, slots=True)
class Deed:
    """One turn.

    Attributes:
        before: what the agent saw.
        action: what it did, in words.
    """

    before: Picture
    action: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One rollout.

    Attributes:
        id: of the trajectory.
        goal: of its task.
        success: the judge's word; None when there is none.
        deeds: turns with a screenshot and an action, in order.
    """

    id: str
    goal: str
    success: bool | None
    deeds: tuple[Deed, ...]


class RecordedRun:
    """The rollouts of one domain in a run directory; a context manager.

    Args:
        path: the run directory.
        domain: of the rollouts.

    Raises:
        StorageError: no run there.
    """

    def __init__(self, path: Path, domain: str = "web") -> None:
        self._history, self._domain = History(path), domain

    def __enter__(self) -> RecordedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._history.close()

    def __iter__(self) -> Iterator[Recording]:
        """Rollouts that ended by the agent's own doing, training before evaluations."""
        for rollout in (*self._history.rollouts, *self._history.evaluations):
            if rollout.domain != self._domain or not rollout.outcome.counts:
                continue
            try:
                record = load_record(self._history.path / rollout.path)
            except StorageError:
                continue  # its file was removed; `mintact check` names it
            success = rollout.success if rollout.live else None
            yield Recording(rollout.id, record["task"]["goal"], success, tuple(_deeds(record)))

    def image(self, picture: Picture) -> bytes:
        """The encoded screenshot.

        Raises:
            StorageError: it is not there any more.
        """
        return self._history.directory.images.get(picture.digest, picture.extension)


def _deeds(record: Mapping[str, Any]) -> Iterator[Deed]:
    extensions = record["image_extensions"]
    for turn in record["turns"]:
        calls = turn["pixel_calls"] or turn["calls"]
        if turn["images"] and calls:
            digest = turn["images"][-1]
            action = " then ".join(words(call) for call in calls)
            yield Deed(Picture(digest, extensions.get(digest, "png")), action)
