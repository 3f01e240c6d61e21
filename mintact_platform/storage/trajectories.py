"""Finished rollouts on disk: token arrays and their record in one safetensors file each."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mintact_platform.errors import StorageError
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory
from mintact_platform.storage.files import write_aside

_ARRAYS = {"ids": np.int32, "mask": np.bool_, "logprobs": np.float32, "versions": np.int32}


class TrajectoryStore:
    """A folder of trajectories, `<2 hex>/<id>.safetensors`. Safe from any thread.

    Args:
        root: the folder; made when the first trajectory comes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def save(self, trajectory: Trajectory) -> Path:
        """Write a trajectory and return its file."""
        path = self.path(trajectory.id)
        write_aside(path, pack(trajectory))
        return path

    def path(self, id: str) -> Path:
        """Where the trajectory is, or would be."""
        # ids of one run begin alike, a hash spreads them over the folders
        folder = hashlib.blake2b(id.encode(), digest_size=1).hexdigest()
        return self.root / folder / f"{id}.safetensors"


def pack(trajectory: Trajectory) -> bytes:
    """The file's bytes: arrays `s<i>.ids/mask/logprobs/versions`, the record as JSON metadata."""
    arrays: dict[str, npt.NDArray[Any]] = {
        f"s{index}.{name}": np.ascontiguousarray(getattr(segment, name), dtype)
        for index, segment in enumerate(trajectory.segments)
        for name, dtype in _ARRAYS.items()
    }
    record = json.dumps(trajectory.to_json(), ensure_ascii=False)
    return save(arrays, metadata={"trajectory": record})


def load(path: Path | str) -> Trajectory:
    """Read a trajectory.

    Raises:
        StorageError: no such file, or not a whole trajectory.
    """
    record, segments = _read(path)
    return Trajectory.from_json(record, segments)


def load_arrays(path: Path | str) -> tuple[Segment, ...]:
    """Read only the token segments, as training needs them.

    Raises:
        StorageError: no such file, or not a whole trajectory.
    """
    return _read(path)[1]


def load_record(path: Path | str) -> dict[str, Any]:
    """Read only the record, `Trajectory.to_json`, without the arrays.

    Raises:
        StorageError: no such file, or not a whole trajectory.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return _record(file)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from None


def _read(path: Path | str) -> tuple[dict[str, Any], tuple[Segment, ...]]:
    try:
        with safe_open(path, framework="numpy") as file:
            record = _record(file)
            segments = tuple(
                Segment(
                    **{name: file.get_tensor(f"s{index}.{name}") for name in _ARRAYS},
                    images=tuple(ImageSpan(**image) for image in segment["images"]),
                )
                for index, segment in enumerate(record["segments"])
            )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from None
    return record, segments


def _record(file: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.metadata()["trajectory"])
    return record


def _unreadable(path: Path | str, error: Exception) -> StorageError:
    missing = not Path(path).exists()
    what = "no such trajectory" if missing else f"not a whole trajectory ({error})"
    return StorageError(what, where=str(path), next="mintact check RUN lists what is missing")
