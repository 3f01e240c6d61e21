"""Stage 0: image tokens of named elements learn to point the way of their words' embeddings.

Only for models that start from nothing: without it, grounding stays at chance for thousands of
steps. n images of k tokens, W words, H hidden size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mintact_platform.datasets.supervised import Pixels
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.demonstration import Box, Demonstration
from mintact_plugin_torch.layout import GridLayout
from mintact_plugin_torch.policy import Patches, Policy

IMAGES = 48
"""Screens a step."""
SHARPNESS = 14.0
"""Factor on cosines before they are read as logits."""
LABELS_WEIGHT = 4.0
DEEPSTACK_SCALE = 0.05

Elements = tuple[tuple[str, Box], ...]
Progress = Callable[[str], None]


class Screen(NamedTuple):
    """A screenshot and its named regions."""

    pixels: Pixels
    elements: Elements


def screens(demonstrations: Iterable[Demonstration]) -> Iterator[Screen]:
    """Every screenshot with its named elements."""
    for demonstration in demonstrations:
        for turn in demonstration.turns:
            if turn.screenshot is not None and turn.elements:
                yield Screen(turn.screenshot, turn.elements)


def align(
    policy: Policy,
    encode: Callable[[str], Sequence[int]],
    screens: Iterator[Screen],
    *,
    steps: int,
    lr: float = 3e-3,
    progress: Progress = lambda line: None,
) -> None:
    """Train vision tower and word embeddings so that they share one space, in place.

    An image token has to name the elements it shows (a word's cosine against it, one logit a
    word), and to tell its row and column by its cosine against fixed orthonormal codes.

    Args:
        policy: a scratch model.
        encode: text to ids.
        screens: endless, all of one size.
        steps: optimiser steps.
        lr: peak learning rate; ten steps of warm-up, then linear to a tenth.
        progress: called with a line now and then.
    """
    first = [next(screens) for _ in range(IMAGES * 4)]
    words = sorted({name for screen in first for name, _ in screen.elements})
    stream = itertools.chain(first, screens)
    probe = _Probe(policy, [encode(f" {word}")[-1] for word in words], first[0])
    tower = policy.model.model.visual
    trained = [*tower.parameters(), probe.embedding, probe.bias]
    adam = torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    for step in range(1, steps + 1):
        for group in adam.param_groups:
            group["lr"] = lr * min(1.0, step / 10) * max(0.1, 1 - (step - 1) / steps)
        seen = list(itertools.islice(stream, IMAGES))
        labels = torch.stack([_labels(screen, words, _grid(policy).cell) for screen in seen])
        loss, recall = probe.loss([policy.cut(screen.pixels) for screen in seen], labels)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        adam.step()
        adam.zero_grad()
        if step % 20 == 0 or step == steps:
            progress(f"align {step}/{steps}: loss {loss.item():.3f}, names found {recall:.0%}")
    _rescale(policy, [policy.cut(screen.pixels) for screen in itertools.islice(stream, 16)])


class _Probe:
    """The throw-away heads of the alignment."""

    def __init__(self, policy: Policy, words: Sequence[int], screen: Screen) -> None:
        height, width = screen.pixels.shape[:2]
        self.policy, self.words = policy, torch.tensor(words)
        self.rows, self.columns = _grid(policy).grid(width, height)
        self.embedding = policy.model.model.language_model.embed_tokens.weight
        self.bias = nn.Parameter(torch.full((len(words),), -5.0))
        fixed = torch.Generator().manual_seed(0)
        codes = torch.randn(self.embedding.shape[1], self.rows + self.columns, generator=fixed)
        self.codes = torch.linalg.qr(codes)[0].T
        tokens = torch.arange(self.rows * self.columns)
        self.row, self.column = tokens // self.columns, tokens % self.columns

    def loss(self, images: Sequence[Patches], labels: Tensor) -> tuple[Tensor, float]:
        """Loss, and the share of names found, for labels `[n, k, W]`."""
        features = F.normalize(self.policy.encode(images).tokens, dim=-1)
        names = F.normalize(self.embedding[self.words], dim=-1)
        logits = (features @ names.T * SHARPNESS + self.bias).view_as(labels)
        named = F.binary_cross_entropy_with_logits(logits, labels)
        places = features @ self.codes.T * SHARPNESS
        rows, columns = places[:, : self.rows], places[:, self.rows :]
        n = len(images)
        located = F.cross_entropy(rows, self.row.repeat(n)) + F.cross_entropy(
            columns, self.column.repeat(n)
        )
        found = ((logits > 0) & (labels > 0)).sum() / labels.sum()
        return LABELS_WEIGHT * named + located, float(found)


def _grid(policy: Policy) -> GridLayout:
    if not isinstance(policy.layout, GridLayout):
        raise ConfigurationError("only a model with a grid of image tokens can be aligned")
    return policy.layout


def _labels(screen: Screen, words: Sequence[str], cell: int) -> Tensor:
    """Which words each image token shows, float `[k, W]`."""
    height, width = screen.pixels.shape[:2]
    rows, columns = height // cell, width // cell
    labels = torch.zeros(rows, columns, len(words))
    for name, (x0, y0, x1, y1) in screen.elements:
        wide = torch.tensor([min(x1, (c + 1) * cell) - max(x0, c * cell) for c in range(columns)])
        high = torch.tensor([min(y1, (r + 1) * cell) - max(y0, r * cell) for r in range(rows)])
        area = high.clamp(min=0)[:, None] * wide.clamp(min=0)
        # a fifth of the cell, or most of what is too small for that
        shown = (area >= 0.2 * cell * cell) | (area >= 0.4 * (x1 - x0) * (y1 - y0))
        if name in words:
            labels[..., words.index(name)] += shown
    return labels.clamp(max=1).view(rows * columns, len(words))


@torch.no_grad()
def _rescale(policy: Policy, images: Sequence[Patches]) -> None:
    """Bring image tokens to the length of word embeddings, and deepstack close to silence."""
    tower = policy.model.model.visual
    embeddings = policy.model.model.language_model.embed_tokens.weight
    lengths = policy.encode(images).tokens.norm(dim=-1)
    factor = embeddings.norm(dim=-1).mean() / lengths.mean()
    tower.merger.linear_fc2.weight.mul_(factor)
    tower.merger.linear_fc2.bias.mul_(factor)
    for merger in tower.deepstack_merger_list:
        merger.linear_fc2.weight.mul_(DEEPSTACK_SCALE)
        merger.linear_fc2.bias.zero_()
