"""Supervised rows on disk: one safetensors file a step, rows named `<file>#<index>`."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from mintact_platform.datasets.supervised import Guidance, SupervisedRow
from mintact_platform.errors import StorageError
from mintact_platform.records.trajectory import ImageSpan

Arrays = dict[str, npt.NDArray[np.generic]]


def write_rows(path: Path, rows: Sequence[SupervisedRow]) -> tuple[str, ...]:
    """Write rows to one file, aside and renamed; returns a reference to each.

    Screens are mostly flat colour: packed with zlib they take a hundredth of the room.
    """
    images = [image for row in rows for image in row.images]
    guidance = [hint for row in rows for hint in row.guidance]
    pixels = b"".join(np.ascontiguousarray(p).tobytes() for row in rows for p in row.pixels)
    arrays: Arrays = {
        "ids": np.concatenate([row.ids for row in rows]).astype(np.int32),
        "mask": np.concatenate([row.mask for row in rows]).astype(np.bool_),
        "images": _table([(i.position, i.width, i.height) for i in images], 3),
        "pixels": np.frombuffer(zlib.compress(pixels, 1), np.uint8),
        "guidance": _table([(g.query, g.word, g.image, len(g.cells)) for g in guidance], 4),
        "cells": _table([(cell,) for g in guidance for cell in g.cells], 1),
        "counts": _table([(len(r.ids), len(r.images), len(r.guidance)) for r in rows], 3),
        "domains": np.frombuffer("\n".join(r.domain for r in rows).encode(), np.uint8),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    save_file(arrays, aside)
    aside.replace(path)
    return tuple(f"{path}#{index}" for index in range(len(rows)))


def read_rows(references: Sequence[str]) -> list[SupervisedRow]:
    """The rows of these references, in their order; each file is read once.

    Raises:
        StorageError: a reference that names no row.
    """
    shards: dict[str, list[SupervisedRow]] = {}
    rows = []
    for reference in references:
        path, _, index = reference.rpartition("#")
        if path not in shards:
            shards[path] = _read_shard(Path(path), reference)
        if not index.isdigit() or int(index) >= len(shards[path]):
            raise StorageError(f"no row {reference!r}", where="supervised rows")
        rows.append(shards[path][int(index)])
    return rows


def _read_shard(path: Path, reference: str) -> list[SupervisedRow]:
    if not path.is_file():
        raise StorageError(f"no file for row {reference!r}", where="supervised rows")
    arrays = load_file(path)
    pixels = np.frombuffer(zlib.decompress(arrays["pixels"].tobytes()), np.uint8)
    domains = arrays["domains"].tobytes().decode().split("\n")
    tokens, images, hints = (_slices(column) for column in arrays["counts"].T.tolist())
    sizes = (arrays["images"][:, 1] * arrays["images"][:, 2] * 3).tolist()
    frames, cells = _slices(sizes), _slices(arrays["guidance"][:, 3].tolist())
    rows = []
    for row, domain in enumerate(domains):
        spans = arrays["images"][images[row]].tolist()
        rows.append(
            SupervisedRow(
                ids=arrays["ids"][tokens[row]],
                mask=arrays["mask"][tokens[row]],
                images=tuple(ImageSpan(str(i), "", *span) for i, span in enumerate(spans)),
                pixels=tuple(
                    pixels[frame].reshape(height, width, 3)
                    for frame, (_, width, height) in zip(frames[images[row]], spans, strict=True)
                ),
                guidance=tuple(
                    Guidance(query, word, image, tuple(arrays["cells"][span, 0].tolist()))
                    for (query, word, image, _), span in zip(
                        arrays["guidance"][hints[row]].tolist(), cells[hints[row]], strict=True
                    )
                ),
                domain=domain,
            )
        )
    return rows


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> npt.NDArray[np.int32]:
    return np.asarray(rows, np.int32).reshape(len(rows), columns)


def _slices(counts: Sequence[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(accumulate(counts, initial=0))]
