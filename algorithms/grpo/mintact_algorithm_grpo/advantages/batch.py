"""Advantages normalised over the whole step, or over a domain of it.

The step is the batch of one trainer step, before it is split into updates or micro-batches.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mintact_algorithm_grpo.advantages.group import mintact
from mintact_platform.training.objective import RewardBatch


def whitened(values: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """(x − mean) / √(var + ε) with weighted mean and, with Bessel's correction, variance.

    Args:
        values: x, any shape.
        weight: of the same shape; a count, so 0/1 for tokens and |y| for rows.
        epsilon: ε.
    """
    total = weight.sum()
    mean = (values * weight).sum() / total.clamp(min=1)
    centred = values - mean
    variance = (centred.square() * weight).sum() / (total - 1).clamp(min=1)
    return centred * (variance + epsilon).rsqrt()


def reinforce_pp(batch: RewardBatch, *, gamma: float = 1.0, epsilon: float = 1e-8) -> Tensor:
    """REINFORCE++: the discounted return of each token, whitened over all tokens of the step.

        Â = (G − mean G) / √(var G + ε),  G_t = γ^(|y|−1−t) R

    γ = `gamma`. `[rows, tokens]`.

    Source: Hu et al. 2025, REINFORCE++, arXiv 2501.03262.
    Trap: a return reset at masked tokens never reaches earlier turns; here only sampled tokens are.
    """
    mask = batch.token_mask & batch.live[:, None]
    places = torch.arange(mask.shape[1], dtype=torch.float64, device=mask.device)
    remaining = (batch.lengths[:, None] - 1 - places).clamp(min=0)
    returns = batch.rewards[:, None] * torch.pow(gamma, remaining)
    return whitened(returns.masked_fill(~mask, 0.0), mask.double(), epsilon)


def reinforce_pp_baseline(batch: RewardBatch, *, epsilon: float = 1e-8) -> Tensor:
    """REINFORCE++ with a group baseline, whitened over all tokens of the step.

        Â = (A − mean A) / √(var A + ε),  A = R − mean_G R, statistics over tokens

    Source: Hu et al. 2025, REINFORCE++-baseline, arXiv 2501.03262.
    Trap: statistics are over tokens, so that long responses count more; mean A need not be 0.
    """
    return whitened(mintact(batch), batch.lengths * batch.live, epsilon)


def task_normalised(batch: RewardBatch, *, epsilon: float = 1e-8) -> Tensor:
    """A group baseline, whitened over the tokens of each domain, so that none outweighs another.

        Â = (A − mean_D A) / √(var_D A + ε),  A = R − mean_G R, statistics over tokens of domain D

    Source: Zhang et al. 2025, AgentRL, arXiv 2510.04206.
    """
    advantages = mintact(batch)
    for name in dict.fromkeys(batch.domain):
        own = batch.live.new_tensor([domain == name for domain in batch.domain])
        within = whitened(advantages, batch.lengths * (own & batch.live), epsilon)
        advantages = advantages.where(~own, within)
    return advantages


def gpg(
    batch: RewardBatch, *, f: float = 1.0, count: Literal["rewards", "groups"] = "rewards"
) -> Tensor:
    """GPG: a group baseline, scaled up for the samples that give no gradient.

        Â = α (R − mean_G R) / F,  α = live rollouts / those that count

    F = `f`; `count`: rollouts with R ≠ 0 (as in verl), or those in groups of unequal rewards.

    Source: Chu et al. 2025, GPG, arXiv 2504.02546.
    Trap: the paper means groups; published code counts rewards.
    """
    centred = mintact(batch)
    telling = batch.rewards if count == "rewards" else batch.group_sum(centred.square())
    counted = ((telling != 0) & batch.live).sum().clamp(min=1)
    return batch.live.sum().double() / counted * centred / f


def prpo(batch: RewardBatch, *, epsilon: float = 1e-6) -> Tensor:
    """Rewards centred and scaled over the whole step instead of a group.

        Â = (R − mean R) / (std R + ε)

    Source: rLLM, PRPO.
    Trap: std is the population's, without Bessel's correction.
    """
    return standardised(batch.rewards, batch.live, epsilon)


def standardised(values: Tensor, live: Tensor, epsilon: float) -> Tensor:
    """(x − mean) / (std + ε) over live rows, std of the population."""
    count = live.sum().clamp(min=1)
    centred = values - values.masked_fill(~live, 0.0).sum() / count
    std = (centred.square().masked_fill(~live, 0.0).sum() / count).sqrt()
    return centred / (std + epsilon)
