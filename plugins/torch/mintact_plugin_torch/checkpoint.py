"""A checkpoint of the trainer: tensors in safetensors, the rest in JSON, sealed, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mintact_platform.errors import CheckpointCorrupt, StorageError
from mintact_platform.storage import checkpoints

FORMAT = 1
_WEIGHTS, _DEPLOYED, _OPTIMISER, _STATE = (
    "weights.safetensors",
    "deployed.safetensors",
    "optimizer.safetensors",
    "trainer.json",
)


@dataclass(frozen=True, slots=True)
class State:
    """The part of a checkpoint that is no tensor.

    Attributes:
        step: last step it contains.
        deployed_version: version of θ^(deployed).
        incarnation: of the scheduler.
        random: state of torch's generator, hex.
        format: of the checkpoint.
    """

    step: int
    deployed_version: int
    incarnation: int
    random: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """All of a checkpoint.

    Attributes:
        state: see `State`.
        weights: θ by parameter name.
        deployed: θ^(deployed).
        optimiser: as `Optimiser.tensors`.
    """

    state: State
    weights: Mapping[str, Tensor]
    deployed: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


def write(path: Path, contents: Contents) -> None:
    """Write a checkpoint aside, seal it, rename it to `path`, replacing what was there.

    Raises:
        StorageError: the disk is full, or cannot be written; what was there stays.
    """
    try:
        _write(path, contents)
    except (OSError, SafetensorError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise StorageError(
            f"cannot be written: {text}", where=str(path), next="make room on the disk"
        ) from error


def _write(path: Path, contents: Contents) -> None:
    with aside(path) as directory:
        save_file(dict(contents.weights), directory / _WEIGHTS)
        # right after a push θ is θ^(deployed): one file serves for both
        if not _same(contents.weights, contents.deployed):
            save_file(dict(contents.deployed), directory / _DEPLOYED)
        save_file(dict(contents.optimiser), directory / _OPTIMISER)
        (directory / _STATE).write_text(json.dumps(asdict(contents.state), indent=1))
        step, incarnation = contents.state.step, contents.state.incarnation
        checkpoints.seal(directory, step=step, incarnation=incarnation)


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A directory to fill, which becomes `path` once it is on disk, or leaves no trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = path.with_name(f".{path.name}.{os.getpid()}")
    replaced = path.with_name(f"{directory.name}.replaced")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    try:
        yield directory
        _sync(directory)
        if path.exists():
            path.rename(replaced)
        directory.rename(path)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def read(path: Path, *, shapes: Mapping[str, torch.Size]) -> Contents:
    """Read and verify a checkpoint.

    Args:
        path: its directory.
        shapes: of the model's parameters.

    Raises:
        CheckpointCorrupt: incomplete, or its bytes changed.
        StorageError: of another model, or of another version of this trainer.
    """
    checkpoints.read(path).verify()
    try:
        state = State(**json.loads((path / _STATE).read_text()))
        weights = load_file(path / _WEIGHTS)
        deployed = load_file(path / _DEPLOYED) if (path / _DEPLOYED).exists() else weights
        optimiser = load_file(path / _OPTIMISER)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise CheckpointCorrupt(
            f"cannot be read ({error})", where=str(path), next="resume from an older checkpoint"
        ) from None
    if state.format != FORMAT:
        raise StorageError(f"format {state.format}, not {FORMAT}", where=str(path))
    if {name: tensor.shape for name, tensor in weights.items()} != dict(shapes):
        raise StorageError(
            "holds the weights of another model", where=str(path), next="check model.path"
        )
    return Contents(state, weights, deployed, optimiser)


def _same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())


def _sync(directory: Path) -> None:
    """Bring files to disk before the rename that makes them count."""
    for entry in [*directory.iterdir(), directory]:
        descriptor = os.open(entry, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
