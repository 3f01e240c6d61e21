"""SAPO: a soft gate instead of a clip."""

from __future__ import annotations

import torch
from torch import Tensor

from mintact_algorithm_grpo.objectives.ratios import log_ratio
from mintact_platform.training.objective import LossBatch


def sapo(
    batch: LossBatch,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    kappa: float = 20.0,
) -> Tensor:
    """SAPO: the gradient fades as the ratio leaves 1, faster where Â ≤ 0.

        l = −(4/τ) σ(τ(r − 1)) · Â,  τ = τ₊ where Â > 0, else τ₋
        r = exp(clip(ℓ − ℓ_prox, ±κ))

    τ₊ = `tau_positive`, τ₋ = `tau_negative`, κ = `kappa`.

    Source: Gao et al. 2025, SAPO, arXiv 2511.20347.
    Trap: the value is not 0 at r = 1, only its slope is −Â; goes with `seq_mean_token_mean`.
    """
    A = batch.advantages
    tau = A.new_full(A.shape, tau_negative).masked_fill(A > 0, tau_positive)
    gate = torch.sigmoid(tau * (log_ratio(batch, kappa).exp() - 1))
    return -4 / tau * gate * A
