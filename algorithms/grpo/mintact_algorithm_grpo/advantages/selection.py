"""Advantages from more than a group's mean: several rewards, the best of k, accepted samples."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mintact_algorithm_grpo.advantages.batch import standardised
from mintact_algorithm_grpo.advantages.group import normalised
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.training.objective import RewardBatch


def gdpo(
    batch: RewardBatch,
    *,
    weights: Mapping[str, float] | None = None,
    whiten: bool = False,
    epsilon: float = 1e-6,
) -> Tensor:
    """GDPO: each part of the reward is normalised by itself, then they are summed.

        Â = Σ_k λ_k (R_k − mean_G R_k) / (std_G R_k + ε)

    λ = `weights`, 1 for parts not named; `whiten` standardises Â over the step afterwards.

    Source: Liu et al. 2026, GDPO, arXiv 2601.05242.
    Trap: the paper scales over the batch at the end; most code does not.
    """
    if not batch.reward_parts and batch.live.any():
        raise ConfigurationError("reward_parts is empty", next="the judge must give components")
    for name in weights or {}:
        if name not in batch.reward_parts:
            hint = near_match(name, list(batch.reward_parts))
            raise ConfigurationError(f"weights names no part {name!r}", next=hint)
    total = torch.zeros_like(batch.rewards)
    for name, part in batch.reward_parts.items():
        total = total + (weights or {}).get(name, 1.0) * normalised(batch, part, epsilon)
    return standardised(total, batch.live, epsilon) if whiten else total


def pass_at_k(
    batch: RewardBatch, *, k: int = 4, threshold: float = 0.0, epsilon: float = 1e-6
) -> Tensor:
    """Pass@k as the reward, its advantage averaged over all draws of k members.

        Â = (1 − P) / (σ + ε) for R > threshold, else (1 − P − C(f−1, k−1) / C(n−1, k−1)) / (σ + ε)
        P = 1 − C(f, k) / C(n, k),  σ = √(P(1 − P)),  f failures among n live members

    Source: Chen et al. 2025, Pass@k training, arXiv 2508.10751.
    Trap: where fewer than k failed every draw succeeds: Â = 0.
    """
    good = (batch.rewards > threshold).double()
    n, failures = batch.group_sum(torch.ones_like(good)), batch.group_sum(1 - good)
    P = 1 - _all_among(failures, n, k)
    rest = _all_among(failures - 1, n - 1, k - 1)
    gain = torch.where(good > 0, 1 - P, 1 - P - rest)
    return gain / ((P * (1 - P)).clamp(min=0).sqrt() + epsilon)


def _all_among(few: Tensor, many: Tensor, k: int) -> Tensor:
    """C(few, k) / C(many, k): the chance that k draws without return all fall among the few."""
    chance = torch.ones_like(few)
    for drawn in range(k):
        chance = chance * (few - drawn).clamp(min=0) / (many - drawn).clamp(min=1)
    return chance


def grpo_passk(batch: RewardBatch, *, epsilon: float = 1e-6) -> Tensor:
    """Only the best member learns, by its lead over the second.

        Â = (R − max of the others) / (std_G R + ε) for the best of the group, else 0

    Source: Tang et al. 2025, arXiv 2503.19595.
    Trap: equal best ones have no lead, and with n live members the estimate is of pass@n.
    """
    others = (batch.group[:, None] == batch.group) & batch.live
    others = others & ~torch.eye(len(batch.group), dtype=torch.bool, device=others.device)
    best = batch.rewards.expand(others.shape).masked_fill(~others, -torch.inf).amax(1)
    lead = (batch.rewards - best).clamp(min=0).where(others.any(1), 0.0)
    live = batch.group_sum(torch.ones_like(batch.rewards))
    squares = batch.group_sum((batch.rewards - batch.group_mean(batch.rewards)).square())
    return lead / ((squares / (live - 1).clamp(min=1)).sqrt() + epsilon)


def rejection(batch: RewardBatch, *, threshold: float = 0.0, best_only: bool = False) -> Tensor:
    """Accepted samples count 1, all others nothing.

        Â = 1 where R > threshold (and R = max_G R with `best_only`), else 0

    Source: Dong et al. 2023, RAFT, arXiv 2304.06767; Yuan et al. 2023, RFT, arXiv 2308.01825.
    Trap: equal best ones are all accepted, so that the order of members does not matter.
    """
    accepted = batch.rewards > threshold
    if best_only:
        member = (batch.group[:, None] == batch.group) & batch.live
        best = batch.rewards.expand(member.shape).masked_fill(~member, -torch.inf).amax(1)
        accepted = accepted & (batch.rewards >= best)
    return accepted.double()
