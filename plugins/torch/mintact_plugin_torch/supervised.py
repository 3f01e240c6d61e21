"""One supervised step: cross-entropy on demonstrated tokens, with attention guidance if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mintact_platform.datasets.supervised import SupervisedRow
from mintact_platform.records.trajectory import Segment
from mintact_platform.training.batch import micro_batches
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.warmstart.guidance import Guide, guided, targets


class Supervised(NamedTuple):
    """What a supervised step measured.

    Attributes:
        loss: mean cross-entropy over all supervised tokens, plus weighted guidance.
        metrics: `{metric: {domain: value}}`.
        tokens: supervised tokens.
    """

    loss: float
    metrics: dict[str, dict[str, float]]
    tokens: int


def cross_entropy(
    forward: Forward, rows: Sequence[SupervisedRow], *, guidance: float, micro_batch_tokens: int
) -> Supervised:
    """Leave the gradient of the mean cross-entropy (and guidance) on the parameters."""
    segments = [_segment(forward, row, index) for index, row in enumerate(rows)]
    tokens = sum(int(row.mask.sum()) for row in rows)
    hints = sum(len(row.guidance) for row in rows) if guidance else 0
    surprise: dict[str, list[Tensor]] = {}
    guided_loss, total = 0.0, 0.0
    with guided(forward.policy) if hints else nullcontext():
        for batch in micro_batches([forward.length(s) for s in segments], micro_batch_tokens):
            own = [rows[i] for i in batch]
            logprobs, pull = _forward(forward, own, [segments[i] for i in batch], bool(hints))
            loss = -logprobs.sum() / tokens
            if pull is not None:
                share = pull * sum(len(row.guidance) for row in own) / hints
                loss = loss + guidance * share
                guided_loss += float(share.detach())
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            counts = [int(row.mask.sum()) for row in own]
            parts = torch.split(-logprobs.detach(), counts)
            for row, part in zip(own, parts, strict=True):
                surprise.setdefault(row.domain, []).append(part)
    means = {domain: float(torch.cat(parts).mean()) for domain, parts in surprise.items()}
    everything = torch.cat([part for parts in surprise.values() for part in parts])
    metrics = {"cross_entropy": {"": float(everything.mean()), **means}}
    if hints:
        metrics["guidance"] = {"": guided_loss}
    return Supervised(total, metrics, tokens)


def _forward(
    forward: Forward, rows: Sequence[SupervisedRow], segments: Sequence[Segment], hinted: bool
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities `[n]` of the supervised tokens, and the guidance loss of these rows."""
    batch = forward.collate(segments, [1.0] * len(segments))
    wanted = targets(rows, batch.expanded) if hinted else None
    guide = None if wanted is None else Guide(wanted)
    states = forward.states(batch, **({} if guide is None else {"guide": guide}))
    logprobs = forward.policy.logprobs(states, batch.targets, batch.temperature)
    return logprobs, None if guide is None else guide.loss


def _segment(forward: Forward, row: SupervisedRow, index: int) -> Segment:
    """The row as a segment, its images handed to `forward` under names of this step's own."""
    spans = []
    for place, (span, pixels) in enumerate(zip(row.images, row.pixels, strict=True)):
        name = f"{index}/{place}"
        forward.hold(name, forward.policy.cut(pixels))
        spans.append(replace(span, digest=name))
    nothing = np.zeros(len(row.ids))
    return Segment(
        row.ids, row.mask, nothing.astype(np.float32), nothing.astype(np.int32), tuple(spans)
    )
