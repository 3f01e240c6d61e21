"""Clip-Cov and KL-Cov: entropy is kept by holding back the few tokens that would spend it.

Both choose among all tokens of the update, which is why they must see it at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mintact_algorithm_grpo.objectives.clip import mintact
from mintact_algorithm_grpo.objectives.ratios import Surrogate, log_ratio
from mintact_platform.training.objective import LossBatch, objective


def covariance(batch: LossBatch) -> Tensor:
    """(Â − mean Â)(ℓ − mean ℓ) of each token, means over all tokens of the batch, detached."""
    mask = batch.loss_mask

    def centred(values: Tensor) -> Tensor:
        return values - values.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)

    return centred(batch.advantages) * centred(batch.logprobs.detach())


@objective(micro_batch_invariant=False)
def clip_cov(
    batch: LossBatch,
    *,
    ratio: float = 2e-4,
    cov_low: float = 1.0,
    cov_high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kappa: float = 20.0,
) -> Surrogate:
    """Clip-Cov: PPO without a random few of the tokens whose covariance is high.

        l = 0 on max(1, ⌊ρn⌋) random tokens not clipped, a < cov < b, else l_ppo
        cov = (Â − mean Â)(ℓ − mean ℓ)

    ρ = `ratio` of the n tokens of the update, a = `cov_low`, b = `cov_high`; ε_low, ε_high, κ as
    in `clip_higher`.

    Source: Cui et al. 2025, arXiv 2505.22617.
    Trap: which tokens is drawn from torch's generator, that the trainer seeds with the step.
    """
    surrogate, metrics = mintact(
        batch, clip_low=clip_low, clip_high=clip_high, clip_dual=math.inf, kappa=kappa
    )
    cov, held = covariance(batch), metrics["clip_low"] | metrics["clip_high"]
    eligible = batch.loss_mask & ~held & (cov > cov_low) & (cov < cov_high)
    places = eligible.flatten().nonzero()[:, 0]
    count = max(1, int(ratio * int(batch.loss_mask.sum())))
    drawn = places[torch.randperm(len(places)).to(places.device)[:count]]
    dropped = torch.zeros_like(eligible).view(-1).index_fill(0, drawn, True).view_as(eligible)
    return surrogate * ~dropped, {**metrics, "covariance_clipped": dropped}


@objective(micro_batch_invariant=False)
def kl_cov(
    batch: LossBatch, *, ratio: float = 2e-4, coefficient: float = 1.0, kappa: float = 20.0
) -> Surrogate:
    """KL-Cov: a penalty on the drift of the tokens whose covariance is highest.

        l = −Âr + β|ℓ − ℓ_prox| on the max(1, ⌊ρn⌋) tokens of largest cov, else −Âr
        r = exp(clip(ℓ − ℓ_prox, ±κ)),  cov = (Â − mean Â)(ℓ − mean ℓ)

    ρ = `ratio` of the n tokens of the update, β = `coefficient`, κ = `kappa`.

    Source: Cui et al. 2025, arXiv 2505.22617.
    """
    d, mask = log_ratio(batch, kappa), batch.loss_mask
    cov = covariance(batch).masked_fill(~mask, -math.inf)
    count = min(max(1, int(ratio * int(mask.sum()))), mask.numel())
    largest = cov.flatten().topk(count).indices
    chosen = torch.zeros_like(mask).view(-1).index_fill(0, largest, True).view_as(mask)
    penalty = coefficient * d.abs() * chosen
    return -batch.advantages * d.exp() + penalty, {"covariance_penalised": chosen}
