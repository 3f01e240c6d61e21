"""Attention of packed rows over cache slots: one plan a forward, the same for all layers.

Shapes: T packed tokens, Q query heads, K key heads, D head size. The slots' keys and values are
`[slots, K, context, D]` a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_CALL_TOKENS = 256
"""Cached tokens that may be read in vain to save one attention call, which costs about as much."""


class Row(NamedTuple):
    """Tokens of one request in a forward.

    Attributes:
        slot: where its keys and values live.
        start: tokens already in the slot.
        tokens: number of new ones.
    """

    slot: int
    start: int
    tokens: int


@dataclass(slots=True)
class Run:
    """Neighbouring slots with one new token each, attended in one call.

    Attributes:
        first, last: slots `[first, last)`, idle ones between included.
        length: tokens read of each slot.
        tokens: slice of the packed tokens.
        offsets: slot of each token relative to `first`; None when no idle slot lies between.
        mask: `[slots, 1, 1, length]`, None when all rows have this length.
    """

    first: int
    last: int
    length: int
    tokens: slice
    offsets: Tensor | None
    mask: Tensor | None

    def advance(self) -> None:
        """Every row is one token further."""
        self.length += 1
        if self.mask is not None:
            self.mask = F.pad(self.mask, (1, 0))


@dataclass(frozen=True, slots=True)
class Block:
    """Several new tokens of one slot; `mask` is `[tokens, length]`, None from an empty slot."""

    slot: int
    length: int
    tokens: slice
    mask: Tensor | None


class Plan:
    """How the rows of one forward attend.

    Args:
        rows: rows with one token first, in slot order, as `order` sorts them; there may be none.
        dtype: of the model.
        device: of the model.
    """

    def __init__(self, rows: Sequence[Row], dtype: torch.dtype, device: torch.device) -> None:
        self._all, self._device = rows, device
        self._written: Tensor | None = None
        singles = sum(row.tokens == 1 for row in rows)
        self._runs = [_run(rows, a, b, dtype, device) for a, b in _neighbours(rows[:singles])]
        ends = accumulate((row.tokens for row in rows[singles:]), initial=singles)
        self._blocks = [
            _block(row, end, dtype, device)
            for row, end in zip(rows[singles:], islice(ends, 1, None), strict=True)
        ]

    def write(self, key: Tensor, value: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write the new keys and values to their slots.

        Args:
            key: `[T, K, D]`, rotated.
            value: `[T, K, D]`.
            keys: the layer's slots.
            values: the layer's slots.
        """
        written = self._rows(keys)
        keys.view(-1, keys.shape[-1]).index_copy_(0, written, key.reshape(-1, key.shape[-1]))
        values.view(-1, keys.shape[-1]).index_copy_(0, written, value.reshape(-1, key.shape[-1]))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend over what is written.

        Args:
            query: `[T, Q, D]`, rotated.
            keys: the layer's slots.
            values: the layer's slots.

        Returns:
            `[T, Q × D]`.
        """
        parts = [_attend_run(run, query, keys, values) for run in self._runs]
        parts += [_attend_block(block, query, keys, values) for block in self._blocks]
        if not parts:
            return query.flatten(1)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def advance(self) -> None:
        """Plan the next forward of the same rows; each has one token, in slots of this size."""
        for run in self._runs:
            run.advance()
        if self._written is not None:
            self._written += 1

    def _rows(self, keys: Tensor) -> Tensor:
        """Where the new keys go, `[T × K]` rows of a layer's slots; the same for all layers."""
        if self._written is None:
            _, heads, context, _ = keys.shape
            counts = np.array([row.tokens for row in self._all])
            begins = np.array([row.slot * heads * context + row.start for row in self._all])
            if counts.max() > 1:
                steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
                begins = np.repeat(begins, counts) + steps
            rows = begins[:, None] + context * np.arange(heads)
            self._written = torch.from_numpy(rows.reshape(-1)).to(self._device)
        return self._written


def order(row: Row) -> tuple[bool, int]:
    """Sort key of rows: one-token rows first, then by slot."""
    return row.tokens > 1, row.slot


def _neighbours(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Cut one-token rows, in slot order, into runs worth one call each, as index ranges."""
    runs: list[tuple[int, int]] = []
    first = longest = 0
    for i, row in enumerate(rows):
        if i > first:
            width = rows[i - 1].slot + 1 - rows[first].slot
            gap = row.slot - rows[i - 1].slot - 1
            both = max(longest, row.start)
            wasted = width * (both - longest) + (both - row.start) + gap * both
            if wasted > _CALL_TOKENS:
                runs.append((first, i))
                first, longest = i, 0
        longest = max(longest, row.start)
    return [*runs, (first, len(rows))] if rows else []


def _run(rows: Sequence[Row], a: int, b: int, dtype: torch.dtype, device: torch.device) -> Run:
    first, last = rows[a].slot, rows[b - 1].slot + 1
    if b - a == 1:
        return Run(first, last, rows[a].start + 1, slice(a, b), None, None)
    lengths = np.full(last - first, max(row.start for row in rows[a:b]) + 1)
    offsets = np.array([row.slot - first for row in rows[a:b]])
    length = int(lengths[0])
    lengths[offsets] = [row.start + 1 for row in rows[a:b]]
    mask = None
    if lengths.min() < length:
        hidden = np.arange(length) >= lengths[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype)
        mask.masked_fill_(torch.from_numpy(hidden), -torch.inf)
        mask = mask[:, None, None].to(device)
    dense = len(offsets) == last - first
    gaps = None if dense else torch.from_numpy(offsets).to(device)
    return Run(first, last, length, slice(a, b), gaps, mask)


def _block(row: Row, end: int, dtype: torch.dtype, device: torch.device) -> Block:
    length = row.start + row.tokens
    mask = None
    if row.start:
        mask = torch.full((row.tokens, length), -torch.inf, dtype=dtype, device=device)
        mask.triu_(row.start + 1)
    return Block(row.slot, length, slice(end - row.tokens, end), mask)


def _attend_run(run: Run, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    _, heads, size = query.shape
    groups = keys.shape[1]
    rows = query[run.tokens]
    if run.offsets is not None:
        spread = rows.new_zeros((run.last - run.first, heads, size))
        spread[run.offsets] = rows
        rows = spread
    # query heads of one key head stand in for query positions: no key is ever repeated
    attended = F.scaled_dot_product_attention(
        rows.view(len(rows), groups, heads // groups, size),
        keys[run.first : run.last, :, : run.length],
        values[run.first : run.last, :, : run.length],
        attn_mask=run.mask,
    ).reshape(len(rows), heads * size)
    return attended if run.offsets is None else attended[run.offsets]


def _attend_block(block: Block, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    attended = F.scaled_dot_product_attention(
        query[block.tokens].transpose(0, 1)[None],
        keys[block.slot : block.slot + 1, :, : block.length],
        values[block.slot : block.slot + 1, :, : block.length],
        attn_mask=block.mask,
        is_causal=block.mask is None,
        enable_gqa=query.shape[1] != keys.shape[1],
    )
    return attended[0].transpose(0, 1).flatten(1)
