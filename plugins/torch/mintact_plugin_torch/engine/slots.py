"""Cache slots: keys and values of running requests and of finished ones that a next turn continues.

A slot's content is named by its keys: the token id, or a negative number made from the image's
digest, so that equal keys mean equal tokens and equal pixels.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mintact_plugin_torch.engine.memory import zeros

Keys = npt.NDArray[np.int64]

MIN_SHARED = 16
"""Shorter common prefixes are computed again rather than waited for or copied."""

_PER_DROPPED = 8
"""A prefix so many times longer than what follows it is not copied only to keep what follows:
computing a token costs more than copying so many."""


class Reservation(NamedTuple):
    """A slot given to a request, whose first `cached` tokens are there already."""

    slot: int
    cached: int


def image_key(digest: str) -> int:
    """The key of every token of an image: negative, so that no token id equals it."""
    number = int.from_bytes(hashlib.blake2b(digest.encode(), digest_size=8).digest(), "big")
    return -1 - (number >> 1)


def common_prefix(a: Keys, b: Keys) -> int:
    """Number of leading keys that are equal."""
    length = min(len(a), len(b))
    if not length or a[0] != b[0]:
        return 0
    differ = a[:length] != b[:length]
    first = int(differ.argmax())
    return first if differ[first] else length


def _same_at(a: Keys, b: Keys, place: int) -> bool:
    return place < len(a) and place < len(b) and bool(a[place] == b[place])


class Slots:
    """A fixed number of slots in one allocation a layer.

    On a CPU the allocations are small at first and grow with the longest request: neighbours that
    lie close share pages. Elsewhere they have their full size at once.

    Args:
        count: slots.
        context: tokens a slot holds.
        layers: of the model.
        heads: key heads.
        head_size: of the model.
        dtype: of the model.
        device: of the model.
        reuse: whether prefixes are shared; off, every slot starts empty.
        capacity: tokens a slot has memory for at first, on a CPU.

    Attributes:
        keys, values: `[slots, heads, capacity, head_size]` a layer.
        capacity: tokens that slots have memory for now, at most `context`.
        lengths: tokens each slot holds.
    """

    def __init__(
        self,
        count: int,
        context: int,
        *,
        layers: int,
        heads: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
        reuse: bool = True,
        capacity: int = 512,
    ) -> None:
        self.capacity = min(capacity, context) if device.type == "cpu" else context
        shape = (count, heads, self.capacity, head_size)
        # zeros, not empty: masked positions are multiplied by 0, and 0 × NaN is NaN
        self.keys: list[Tensor] = [zeros(shape, dtype, device) for _ in range(layers)]
        self.values: list[Tensor] = [zeros(shape, dtype, device) for _ in range(layers)]
        self.count, self.context = count, context
        self.lengths = [0] * count
        self._reuse = reuse
        self._content: list[Keys] = [np.empty(0, dtype=np.int64)] * count
        self._busy = [False] * count
        self._used = [0] * count
        self._written = [0] * count
        self._clock = 0

    @property
    def busy(self) -> int:
        """Slots that requests hold."""
        return sum(self._busy)

    @property
    def clock(self) -> int:
        """Moves whenever a slot is given or taken back."""
        return self._clock

    @property
    def held_tokens(self) -> int:
        """Tokens in all slots."""
        return sum(self.lengths)

    def reserve(self, keys: Keys) -> Reservation | None:
        """Give a slot to a request with these prompt keys.

        The longest cached prefix is used: in place where the slot is idle and holds little more,
        which is dropped, copied otherwise. None when no slot is free, or when a running request is
        about to compute a longer prefix, which is worth waiting for.
        """
        if all(self._busy):
            return None
        donor, shared, coming = self._longest(keys)
        if coming >= shared + MIN_SHARED:
            return None
        if shared < MIN_SHARED:
            shared = 0
        beyond = self.lengths[donor] - shared
        continues = not self._busy[donor] and _PER_DROPPED * beyond <= shared
        slot = donor if shared and continues else self._free_slot()
        if slot != donor and shared:
            for tensor in (*self.keys, *self.values):
                tensor[slot, :, :shared] = tensor[donor, :, :shared]
        self._busy[slot] = True
        self._content[slot] = keys
        self.lengths[slot] = shared
        self._touch(slot)
        return Reservation(slot, shared)

    # called within a forward: what an inference mode makes cannot be written outside of one
    @torch.inference_mode(False)
    def fit(self, length: int) -> None:
        """Have memory for so many tokens a slot; `keys` and `values` may be other tensors then."""
        if length <= self.capacity:
            return
        capacity = min(self.context, max(length, 2 * self.capacity))
        # all or nothing: layers of different sizes would be written in wrong places
        keys = [self._grown(tensor, capacity) for tensor in self.keys]
        values = [self._grown(tensor, capacity) for tensor in self.values]
        self.keys, self.values, self.capacity = keys, values, capacity
        self._written = list(self.lengths)

    def _grown(self, tensor: Tensor, capacity: int) -> Tensor:
        count, heads, _, size = tensor.shape
        grown = zeros((count, heads, capacity, size), tensor.dtype, tensor.device)
        for slot, length in enumerate(self.lengths):
            grown[slot, :, :length] = tensor[slot, :, :length]
        return grown

    def advance(self, slot: int, tokens: int) -> None:
        """A forward wrote so many more tokens."""
        self.lengths[slot] += tokens

    def release(self, slot: int, keys: Keys | None) -> None:
        """End a request; `keys` name what the slot keeps for a next turn, None empties it."""
        self._busy[slot] = False
        self._written[slot] = max(self._written[slot], self.lengths[slot])
        if keys is None or not self._reuse:
            self.lengths[slot] = 0
            self._content[slot] = np.empty(0, dtype=np.int64)
        else:
            self._content[slot] = keys[: self.lengths[slot]]
        self._touch(slot)

    def empty(self) -> None:
        """Forget all content: idle slots are cleared, running ones no longer shared."""
        for slot in range(self.count):
            self._content[slot] = np.empty(0, dtype=np.int64)
            if self._busy[slot]:
                continue
            for tensor in (*self.keys, *self.values):
                tensor[slot, :, : self._written[slot]] = 0
            self.lengths[slot] = self._written[slot] = 0

    def _longest(self, keys: Keys) -> tuple[int, int, int]:
        """Slot with the longest prefix computed already, its length, and the longest promised."""
        donor = present = promised = 0
        if not self._reuse:
            return donor, present, promised
        # the last prompt token is always computed: its logits are what is sampled from
        wanted = keys[:-1]
        for slot, content in enumerate(self._content):
            # longer than the longest so far only with an equal key at its end
            if not (
                _same_at(content, wanted, promised)
                or (self.lengths[slot] > present and _same_at(content, wanted, present))
            ):
                continue
            shared = common_prefix(content, wanted)
            promised = max(promised, shared)
            computed = min(shared, self.lengths[slot])
            if computed > present:
                donor, present = slot, computed
        return donor, present, promised

    def _free_slot(self) -> int:
        """The lowest empty slot, else the idle one unused for longest."""
        idle = [slot for slot in range(self.count) if not self._busy[slot]]
        empty = [slot for slot in idle if not self.lengths[slot]]
        return empty[0] if empty else min(idle, key=self._used.__getitem__)

    def _touch(self, slot: int) -> None:
        self._clock += 1
        self._used[slot] = self._clock
