"""From collapsed to expanded tokens: where image tokens stand, and every token's M-RoPE position.

Stored and sent ids hold one placeholder an image; engine and trainer expand them with this file,
from recorded image spans and never from the ids themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mintact_platform.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Layout:
    """How an image becomes tokens.

    Attributes:
        patch: side of a patch in pixels.
        merge: patches a side that become one token.
    """

    patch: int
    merge: int

    @property
    def cell(self) -> int:
        """Side of the square that one image token covers, in pixels."""
        return self.patch * self.merge

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of image tokens.

        Raises:
            ConfigurationError: when a side is not a positive multiple of the cell.
        """
        if min(width, height) < self.cell or width % self.cell or height % self.cell:
            raise ConfigurationError(
                f"an image of {width}x{height} pixels does not divide into cells of {self.cell}",
                next=f"resize both sides to a multiple of {self.cell}",
            )
        return height // self.cell, width // self.cell


class Expanded(NamedTuple):
    """Expanded tokens of one row, `L` of them.

    Attributes:
        ids: int64 `[L]`, the placeholder repeated once an image token.
        is_image: bool `[L]`.
        positions: int64 `[3, L]`, M-RoPE rows time, height, width.
        source: int64 `[L]`, index of the collapsed token each one comes from.
        next_position: `start` of the tokens that follow.
    """

    ids: npt.NDArray[np.int64]
    is_image: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    next_position: int


def image_tokens(width: int, height: int, layout: Layout) -> int:
    """Number of tokens of an image of that many pixels."""
    rows, columns = layout.grid(width, height)
    return rows * columns


def expand(
    ids: Sequence[int] | npt.NDArray[np.integer],
    images: Sequence[tuple[int, int, int]],
    layout: Layout,
    start: int = 0,
) -> Expanded:
    """Expand collapsed ids.

    A text token takes the next position in all three rows. An image's tokens share one time
    position, count rows and columns from it, and move the next position on by the longer side.

    Args:
        ids: collapsed ids, `[tokens]`.
        images: `(position of the placeholder, width, height)` in ascending order, in pixels.
        layout: how an image becomes tokens.
        start: position of the first token, for a suffix of a longer context.

    Raises:
        ConfigurationError: an image whose sides do not divide into cells.
        ValueError: spans out of order or outside the ids.
    """
    collapsed = np.asarray(ids, dtype=np.int64)
    places = [position for position, _, _ in images]
    if places != sorted(set(places)) or any(not 0 <= place < len(collapsed) for place in places):
        raise ValueError(f"image spans {places} do not fit {len(collapsed)} tokens in order")
    grids = [layout.grid(width, height) for _, width, height in images]
    repeats = np.ones(len(collapsed), dtype=np.int64)
    advance = np.ones(len(collapsed), dtype=np.int64)
    for place, (rows, columns) in zip(places, grids, strict=True):
        repeats[place] = rows * columns
        advance[place] = max(rows, columns)
    first = start + np.concatenate([[0], np.cumsum(advance)])
    source = np.repeat(np.arange(len(collapsed)), repeats)
    positions = np.tile(first[source], (3, 1))
    is_image = np.zeros(len(source), dtype=np.bool_)
    offsets = np.concatenate([[0], np.cumsum(repeats)])
    for place, (rows, columns) in zip(places, grids, strict=True):
        tokens = slice(offsets[place], offsets[place + 1])
        row, column = np.divmod(np.arange(rows * columns), columns)
        positions[1, tokens] += row
        positions[2, tokens] += column
        is_image[tokens] = True
    return Expanded(collapsed[source], is_image, positions, source, int(first[-1]))
