"""Sampling one token a row, with the exact log-probability of what was sampled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Sampled(NamedTuple):
    """Sampled ids `[rows]` and their log-probabilities after temperature, float32 `[rows]`."""

    ids: Tensor
    logprobs: Tensor


def sample(logits: Tensor, temperatures: Tensor, uniforms: Tensor) -> Sampled:
    """Sample by the inverse of the cumulative distribution; a row depends on no other row.

    Args:
        logits: `[rows, vocabulary]`.
        temperatures: float32 `[rows]`; 0 takes the most probable id, scored at temperature 1.
        uniforms: float64 `[rows]` in [0, 1), one draw a row.
    """
    greedy = temperatures == 0
    some = bool(greedy.any())
    heat = torch.where(greedy, 1.0, temperatures) if some else temperatures
    logprobs = (logits.float() / heat[:, None]).log_softmax(-1)
    cumulative = logprobs.double().exp_().cumsum_(-1)
    targets = uniforms[:, None] * cumulative[:, -1:]
    ids = torch.searchsorted(cumulative, targets, right=True).clamp_max_(logits.shape[-1] - 1)[:, 0]
    if some:
        ids = torch.where(greedy, logprobs.argmax(-1), ids)
    return Sampled(ids, logprobs.gather(-1, ids[:, None])[:, 0])
