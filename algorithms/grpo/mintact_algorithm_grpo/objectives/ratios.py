"""What objectives have in common: log-ratios, sequence statistics and the clipped surrogate.

ℓ = log π_θ, ℓ_prox = log π_prox, ℓ_roll = log π_roll, Â the advantage; all `[rows, tokens]`.
A sequence is a row: with `segments = "all"` each segment of a trajectory is one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mintact_platform.training.objective import LossBatch

Surrogate = tuple[Tensor, dict[str, Tensor]]
"""What an objective returns: the surrogate to minimise, and metrics by name."""


def log_ratio(batch: LossBatch, kappa: float) -> Tensor:
    """Log of r = π_θ / π_prox, clipped to ±κ; beyond it there is no gradient."""
    return (batch.logprobs - batch.proximal_logprobs).clamp(-kappa, kappa)


def sequence_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Σ_t of each row under the mask, `[rows, 1]`."""
    return values.masked_fill(~mask, 0.0).sum(1, keepdim=True)


def sequence_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Σ_t / |y| of each row under the mask, `[rows, 1]`; 0 for a row without tokens."""
    return sequence_sum(values, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def clipped(d: Tensor, A: Tensor, *, low: float, high: float, dual: float = math.inf) -> Surrogate:
    """The clipped surrogate of log-ratios d, the general case of the whole PPO family.

    l = max(−Âr, −Â clip(r, 1−low, 1+high)) with r = eᵈ, and at most −dual·Â where Â < 0.
    """
    r = d.exp()
    one_sided = torch.maximum(-A * r, -A * r.clamp(1 - low, 1 + high))
    ceiling = torch.where(A < 0, -dual * A, math.inf)
    return torch.minimum(one_sided, ceiling), {
        "clip_high": (A > 0) & (r > 1 + high),
        "clip_low": (A < 0) & (r < 1 - low),
        "clip_dual": one_sided > ceiling,
    }
