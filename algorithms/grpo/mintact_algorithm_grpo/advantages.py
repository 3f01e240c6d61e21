"""Advantages of group-relative methods. R is `[rows]`, means run over live rollouts of a group."""

from __future__ import annotations

from torch import Tensor

from mintact_platform.training.objective import RewardBatch


def mintact(batch: RewardBatch) -> Tensor:
    """Â = R − mean(R): a group baseline without division by the standard deviation.

    The same as Dr. GRPO's. Failed rollouts are no part of the mean.
    """
    return batch.rewards - batch.group_mean(batch.rewards)


def grpo(batch: RewardBatch, *, epsilon: float = 1e-6) -> Tensor:
    """Â = (R − mean(R)) / (std(R) + ε), std with Bessel's correction.

    A group with a single live rollout has mean 0 and std 1, so that Â = R / (1 + ε).
    """
    live = batch.group_sum(batch.rewards.new_ones(batch.rewards.shape))
    centred = mintact(batch)
    std = (batch.group_sum(centred.square()) / (live - 1).clamp(min=1)).sqrt()
    normalised = centred / (std + epsilon)
    return normalised.where(live > 1, batch.rewards / (1 + epsilon))
