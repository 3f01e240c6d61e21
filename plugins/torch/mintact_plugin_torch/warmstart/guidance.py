"""Attention guidance for supervised steps: look at the word that names a place, and at the place.

One head of the first layer learns the word, one of the second the image tokens. A tiny model does
not find this by itself in a few hundred steps; a pretrained one has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from mintact_platform.datasets.supervised import SupervisedRow
from mintact_plugin_torch.layout import Expanded
from mintact_plugin_torch.policy import Policy

IMPLEMENTATION = "mintact_guided"
WORD_LAYER, IMAGE_LAYER, HEAD = 0, 1, 0


class Targets(NamedTuple):
    """What the guided tokens of a batch should look at; `g` of them, `L` tokens a row.

    Attributes:
        rows: int64 `[g]`, row of the batch.
        queries: int64 `[g]`, the attending token.
        words: bool `[g, L]`, the naming word.
        images: bool `[g, L]`, the image tokens that show the place.
    """

    rows: Tensor
    queries: Tensor
    words: Tensor
    images: Tensor


def targets(rows: Sequence[SupervisedRow], expanded: Sequence[Expanded]) -> Targets | None:
    """The guidance of a right-padded batch; None when its rows carry none.

    Args:
        rows: rows of the batch.
        expanded: their expansions, in the same order.
    """
    length = max(len(tokens.ids) for tokens in expanded)
    batch, queries, words, images = [], [], [], []
    for index, (row, tokens) in enumerate(zip(rows, expanded, strict=True)):
        first = np.searchsorted(tokens.source, np.arange(len(row.ids)))
        for hint in row.guidance:
            word, image = (np.zeros(length, np.bool_) for _ in range(2))
            word[first[hint.word]] = True
            image[first[row.images[hint.image].position] + np.asarray(hint.cells)] = True
            batch.append(index)
            queries.append(first[hint.query])
            words.append(word)
            images.append(image)
    if not batch:
        return None
    return Targets(
        torch.tensor(batch),
        torch.from_numpy(np.asarray(queries)),
        torch.from_numpy(np.stack(words)),
        torch.from_numpy(np.stack(images)),
    )


@dataclass
class Guide:
    """Collects, during one forward, how far the guided heads look elsewhere.

    Example:
        >>> guide = Guide(targets(rows, expanded))              # doctest: +SKIP
        >>> with guided(policy):                                # doctest: +SKIP
        ...     hidden = policy.hidden(*inputs, guide=guide)
        >>> (cross_entropy + 0.3 * guide.loss).backward()       # doctest: +SKIP
    """

    targets: Targets
    parts: list[Tensor] = field(default_factory=list)

    @property
    def loss(self) -> Tensor:
        """Sum over both layers of the mean −log (attention paid to the target)."""
        return torch.stack(self.parts).sum()

    def watch(self, layer: int, query: Tensor, key: Tensor, scaling: float) -> None:
        """Add a layer's part.

        Args:
            layer: its index; others than the two guided ones are ignored.
            query: `[B, heads, L, d]`, rotated.
            key: `[B, key heads, L, d]`, rotated.
            scaling: of the scores.
        """
        if layer not in (WORD_LAYER, IMAGE_LAYER):
            return
        rows, queries, words, images = self.targets
        wanted = words if layer == WORD_LAYER else images
        scores = torch.einsum("gd,gld->gl", query[rows, HEAD, queries], key[rows, HEAD]) * scaling
        later = torch.arange(scores.shape[1], device=scores.device) > queries[:, None]
        attention = scores.float().masked_fill(later, -torch.inf).log_softmax(-1)
        self.parts.append(-attention.masked_fill(~wanted, -torch.inf).logsumexp(-1).mean())


@contextmanager
def guided(policy: Policy) -> Iterator[None]:
    """Within it, `policy.hidden(…, guide=Guide(…))` fills the guide; the output is unchanged."""
    AttentionInterface.register(IMPLEMENTATION, _attend)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
    config = policy.text.config
    before = config._attn_implementation
    config._attn_implementation = IMPLEMENTATION
    try:
        yield
    finally:
        config._attn_implementation = before


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    guide: Guide | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The stock scaled-dot-product attention, watched."""
    if guide is not None:
        guide.watch(module.layer_idx, query, key, module.scaling)
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None
