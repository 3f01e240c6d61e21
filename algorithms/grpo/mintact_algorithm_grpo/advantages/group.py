"""Baselines of a group: MintAct, GRPO and relatives. R is `[rows]`, as is Â.

Masked rollouts are no part of any mean, deviation or count; n is the number of live members.
"""

from __future__ import annotations

from torch import Tensor

from mintact_platform.training.objective import RewardBatch


def reward(batch: RewardBatch) -> Tensor:
    """The reward itself, without a baseline.

        Â = R

    Source: Williams 1992, REINFORCE.
    """
    return batch.rewards


def mintact(batch: RewardBatch) -> Tensor:
    """A group baseline, not divided by the deviation.

        Â = R − mean_G R

    Source: MintAct; Liu et al. 2025, Dr. GRPO, arXiv 2503.20783.
    Trap: a baseline that counts failed rollouts shifts all the others.
    """
    return batch.rewards - batch.group_mean(batch.rewards)


def grpo(batch: RewardBatch, *, epsilon: float = 1e-6) -> Tensor:
    """A group baseline, divided by the deviation.

        Â = (R − mean_G R) / (std_G R + ε)

    Source: Shao et al. 2024, GRPO, arXiv 2402.03300.
    Trap: std has Bessel's correction, as torch's; a single live member has mean 0 and std 1.
    """
    return normalised(batch, batch.rewards, epsilon)


def normalised(batch: RewardBatch, values: Tensor, epsilon: float) -> Tensor:
    """Any values `[rows]`, centred and divided by their deviation within the group."""
    live = _live(batch)
    centred = values - batch.group_mean(values)
    std = (batch.group_sum(centred.square()) / (live - 1).clamp(min=1)).sqrt()
    return (centred / (std + epsilon)).where(live > 1, values / (1 + epsilon))


def rloo(batch: RewardBatch) -> Tensor:
    """Leave-one-out: the baseline is the mean of the other members.

        Â = (R − mean_G R) · n / (n − 1)

    Source: Ahmadian et al. 2024, RLOO, arXiv 2402.14740.
    Trap: a single live member has no others: Â = R.
    """
    live = _live(batch)
    return (mintact(batch) * live / (live - 1).clamp(min=1)).where(live > 1, batch.rewards)


def opo(batch: RewardBatch) -> Tensor:
    """The baseline of least variance when gradients grow with length.

        Â = R − Σ_G |y|R / Σ_G |y|

    Source: Hao et al. 2025, OPO, arXiv 2505.23585.
    """
    total = batch.group_sum(batch.lengths).clamp(min=1)
    return batch.rewards - batch.group_sum(batch.lengths * batch.rewards) / total


def maxrl(batch: RewardBatch, *, epsilon: float = 1e-6) -> Tensor:
    """MaxRL: divided by the mean, so that rare successes weigh more.

        Â = (R − mean_G R) / (mean_G R + ε)

    Source: Tajwar et al. 2026, MaxRL, arXiv 2602.02710.
    Trap: made for rewards that are not negative.
    """
    mean = batch.group_mean(batch.rewards)
    return (batch.rewards - mean) / (mean + epsilon)


def dapo(
    batch: RewardBatch,
    *,
    overlong_share: float = 0.2,
    overlong_penalty: float = 1.0,
    epsilon: float = 1e-6,
) -> Tensor:
    """GRPO's advantage on rewards that fall as a response nears the cap (overlong shaping).

        Â = (R′ − mean_G R′) / (std_G R′ + ε),  R′ = R − p · clip((|y| − L_cap + B) / B, 0, 1)

    B = `overlong_share` · L_cap, p = `overlong_penalty`, L_cap = `objective.length_cap`.

    Source: Yu et al. 2025, DAPO, arXiv 2503.14476.
    Trap: |y| counts the supervised tokens of the whole trajectory, over all its turns.
    """
    buffer = max(1.0, overlong_share * batch.length_cap)
    excess = ((batch.lengths - batch.length_cap + buffer) / buffer).clamp(0, 1)
    return normalised(batch, batch.rewards - overlong_penalty * excess, epsilon)


def _live(batch: RewardBatch) -> Tensor:
    """Number of live members in each row's group."""
    return batch.group_sum(batch.rewards.new_ones(batch.rewards.shape))
