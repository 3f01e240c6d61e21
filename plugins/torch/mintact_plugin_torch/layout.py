"""From collapsed to expanded tokens: where image tokens stand, and every token's position.

Stored and sent ids hold one placeholder an image; engine and trainer expand them with this file,
from recorded image spans and never from the ids themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mintact_platform.errors import ConfigurationError


class Placement(NamedTuple):
    """The `n` tokens one image becomes.

    Attributes:
        ids: int64 `[n]`; None for n times the placeholder.
        offsets: int64 `[3, n]`, their positions relative to the first one.
        advance: how far the position of the next token lies from the first one.
    """

    ids: npt.NDArray[np.int64] | None
    offsets: npt.NDArray[np.int64]
    advance: int


class Layout(Protocol):
    """How an image becomes tokens."""

    def place(self, width: int, height: int) -> Placement:
        """The tokens of an image of that many pixels.

        Raises:
            ConfigurationError: when it has none.
        """
        ...

    def tokens(self, width: int, height: int) -> int:
        """Number of tokens of an image of that many pixels."""
        ...

    def patches(self, width: int, height: int) -> int:
        """Number of patches the vision tower makes of it."""
        ...


@dataclass(frozen=True, slots=True)
class GridLayout:
    """One token a square cell, with a position of its own by row and by column.

    An image's tokens share one time position, count rows and columns from it, and move the next
    position on by the longer side.

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

    def place(self, width: int, height: int) -> Placement:
        """The tokens of an image of that many pixels."""
        rows, columns = self.grid(width, height)
        row, column = np.divmod(np.arange(rows * columns), columns)
        return Placement(None, np.stack([np.zeros_like(row), row, column]), max(rows, columns))

    def tokens(self, width: int, height: int) -> int:
        """Number of tokens of an image of that many pixels."""
        rows, columns = self.grid(width, height)
        return rows * columns

    def patches(self, width: int, height: int) -> int:
        """Number of patches the vision tower makes of it."""
        return width * height // self.patch**2


class Expanded(NamedTuple):
    """Expanded tokens of one row, `L` of them.

    Attributes:
        ids: int64 `[L]`, an image's placeholder replaced by what it stands for.
        is_image: bool `[L]`, all tokens of images.
        positions: int64 `[3, L]`, M-RoPE rows time, height, width; equal ones without M-RoPE.
        source: int64 `[L]`, index of the collapsed token each one comes from.
        next_position: `start` of the tokens that follow.
    """

    ids: npt.NDArray[np.int64]
    is_image: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    next_position: int


def expand(
    ids: Sequence[int] | npt.NDArray[np.integer],
    images: Sequence[tuple[int, int, int]],
    layout: Layout,
    start: int = 0,
) -> Expanded:
    """Expand collapsed ids.

    A text token takes the next position in all three rows, an image those of its placement.

    Args:
        ids: collapsed ids, `[tokens]`.
        images: `(position of the placeholder, width, height)` in ascending order, in pixels.
        layout: how an image becomes tokens.
        start: position of the first token, for a suffix of a longer context.

    Raises:
        ConfigurationError: an image that the layout has no tokens for.
        ValueError: spans out of order or outside the ids.
    """
    collapsed = np.asarray(ids, dtype=np.int64)
    places = [position for position, _, _ in images]
    if places != sorted(set(places)) or any(not 0 <= place < len(collapsed) for place in places):
        raise ValueError(f"image spans {places} do not fit {len(collapsed)} tokens in order")
    placements = [layout.place(width, height) for _, width, height in images]
    repeats = np.ones(len(collapsed), dtype=np.int64)
    advance = np.ones(len(collapsed), dtype=np.int64)
    for place, placement in zip(places, placements, strict=True):
        repeats[place] = placement.offsets.shape[1]
        advance[place] = placement.advance
    first = start + np.concatenate([[0], np.cumsum(advance)])
    source = np.repeat(np.arange(len(collapsed)), repeats)
    positions = np.tile(first[source], (3, 1))
    expanded = collapsed[source]
    is_image = np.zeros(len(source), dtype=np.bool_)
    offsets = np.concatenate([[0], np.cumsum(repeats)])
    for place, placement in zip(places, placements, strict=True):
        tokens = slice(offsets[place], offsets[place + 1])
        positions[:, tokens] += placement.offsets
        is_image[tokens] = True
        if placement.ids is not None:
            expanded[tokens] = placement.ids
    return Expanded(expanded, is_image, positions, source, int(first[-1]))
