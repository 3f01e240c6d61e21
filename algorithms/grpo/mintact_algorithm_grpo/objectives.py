"""Per-token surrogates to minimise, `[rows, tokens]`; ℓ, ℓ_prox and Â as in the paper."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mintact_platform.training.objective import LossBatch

Surrogate = tuple[Tensor, dict[str, Tensor]]


def mintact(
    batch: LossBatch,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    clip_dual: float = 3.0,
    kappa: float = 20.0,
) -> Surrogate:
    """The clipped surrogate with a dual clip.

    r = exp(clip(ℓ − ℓ_prox, ±κ)); l = max(−Âr, −Â clip(r, 1−ε_low, 1+ε_high)); where Â < 0,
    l is at most −cÂ, so that one very unlikely token cannot dominate.

    Args:
        batch: see `LossBatch`.
        clip_low: ε_low.
        clip_high: ε_high.
        clip_dual: c.
        kappa: κ; beyond it the ratio carries no gradient.
    """
    A = batch.advantages
    r = (batch.logprobs - batch.proximal_logprobs).clamp(-kappa, kappa).exp()
    clipped = torch.maximum(-A * r, -A * r.clamp(1 - clip_low, 1 + clip_high))
    ceiling = torch.where(A < 0, -clip_dual * A, math.inf)
    return torch.minimum(clipped, ceiling), {
        "clip_high": (A > 0) & (r > 1 + clip_high),
        "clip_low": (A < 0) & (r < 1 - clip_low),
        "clip_dual": clipped > ceiling,
    }


def ppo_clip(batch: LossBatch, *, clip: float = 0.2) -> Surrogate:
    """PPO's and GRPO's surrogate: equal clips, no dual clip, no guard."""
    return mintact(batch, clip_low=clip, clip_high=clip, clip_dual=math.inf, kappa=math.inf)


def sft(batch: LossBatch) -> Tensor:
    """−ℓ: cross-entropy on the sampled tokens, whatever their advantage."""
    return -batch.logprobs
