"""Objectives whose ratio belongs to a whole sequence: GSPO, GMPO, off-policy sequence masking.

They give each token its share of the sequence's loss and go with `seq_mean_token_mean`.
"""

from __future__ import annotations

from typing import Literal

import torch

from mintact_algorithm_grpo.objectives.clip import mintact
from mintact_algorithm_grpo.objectives.ratios import Surrogate, clipped, sequence_mean
from mintact_platform.training.objective import LossBatch


def gspo(
    batch: LossBatch, *, clip_low: float = 3e-4, clip_high: float = 4e-4, kappa: float = 10.0
) -> Surrogate:
    """GSPO, token form: the sequence's ratio, its gradient through each token.

        l = max(−Âs, −Â clip(s, 1−ε_low, 1+ε_high))
        s = sg[exp(Σ(ℓ − ℓ_prox) / |y|)] · exp(ℓ − sg ℓ)

    ε_low = `clip_low`, ε_high = `clip_high`, log s is cut at κ = `kappa`.

    Source: Zheng et al. 2025, GSPO-token, arXiv 2507.18071.
    Trap: ε is three orders below PPO's, since s is a geometric mean.
    """
    ell = batch.logprobs
    log_s = sequence_mean(ell - batch.proximal_logprobs, batch.loss_mask).detach()
    d = (log_s + (ell - ell.detach())).clamp(max=kappa)
    return clipped(d, batch.advantages, low=clip_low, high=clip_high)


def gspo_sequence(
    batch: LossBatch, *, clip_low: float = 3e-4, clip_high: float = 4e-4, kappa: float = 10.0
) -> Surrogate:
    """GSPO, sequence form: the gradient goes through the ratio itself.

        l = max(−Âs, −Â clip(s, 1−ε_low, 1+ε_high)),  s = exp(Σ(ℓ − ℓ_prox) / |y|)

    ε_low = `clip_low`, ε_high = `clip_high`, log s is cut at κ = `kappa`.

    Source: Zheng et al. 2025, GSPO, arXiv 2507.18071.
    Trap: equals the token form where Â is one number a sequence; else its tokens share mean Â.
    """
    log_s = sequence_mean(batch.logprobs - batch.proximal_logprobs, batch.loss_mask)
    d = log_s.clamp(max=kappa).expand(batch.logprobs.shape)
    return clipped(d, batch.advantages, low=clip_low, high=clip_high)


def gmpo(
    batch: LossBatch, *, clip_low: float = 0.4, clip_high: float = 0.4, kappa: float = 20.0
) -> Surrogate:
    """GMPO: the geometric mean of token ratios, each clipped in log space.

        l = −Â exp(Σ d̃ / |y|),  d = ℓ − ℓ_prox
        d̃ = min(d, ε_high) where Â ≥ 0, max(d, −ε_low) where Â < 0

    ε_low = `clip_low`, ε_high = `clip_high` in log space; the mean is cut at κ = `kappa`.

    Source: Zhao et al. 2025, GMPO, arXiv 2507.20673.
    Trap: the clip sits inside the product, so that a clipped token only loses its own gradient.
    """
    A, d = batch.advantages, batch.logprobs - batch.proximal_logprobs
    clipped_d = torch.where(A < 0, d.clamp(min=-clip_low), d.clamp(max=clip_high))
    ratio = sequence_mean(clipped_d, batch.loss_mask).clamp(max=kappa).exp()
    return -A * ratio, {
        "clip_high": (A > 0) & (d > clip_high),
        "clip_low": (A < 0) & (d < -clip_low),
    }


def opsm(
    batch: LossBatch,
    *,
    delta: float = 1e-4,
    against: Literal["proximal", "rollout"] = "proximal",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    clip_dual: float = 3.0,
    kappa: float = 20.0,
) -> Surrogate:
    """Off-policy sequence masking: a bad sequence the policy has left behind teaches nothing.

        l = M · l_mintact,  M = 0 where Â < 0 and Σ(ℓ_old − ℓ) / |y| > δ, else 1

    δ = `delta`; ℓ_old is ℓ_prox or, `against = "rollout"`, ℓ_roll; the rest as in `mintact`.

    Source: DeepSeek-AI 2025, DeepSeek-V3.2, arXiv 2512.02556.
    Trap: masked tokens still count in the normaliser.
    """
    old = batch.proximal_logprobs if against == "proximal" else batch.rollout_logprobs
    drift = sequence_mean(old - batch.logprobs.detach(), batch.loss_mask)
    keep = (batch.advantages >= 0) | (drift <= delta)
    surrogate, metrics = mintact(
        batch, clip_low=clip_low, clip_high=clip_high, clip_dual=clip_dual, kappa=kappa
    )
    return surrogate * keep, {**metrics, "sequence_masked": ~keep}
