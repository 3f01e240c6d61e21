"""Normalisers: what the sum over all tokens of an update is divided by.

`fixed`, the constant S of the paper and of Dr. GRPO, comes with the core. All are of the whole
update, so that neither micro-batches nor data-parallel ranks can change them.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from mintact_platform.training.objective import RewardBatch

Count = Literal["planned", "live"]
"""Which trajectories are counted: N a group whatever became of them, or those that are left."""


def token_mean(batch: RewardBatch) -> float:
    """The mean over all supervised tokens of the update.

        S = Σ_i |y_i|

    Source: Yu et al. 2025, DAPO, arXiv 2503.14476.
    Trap: taken per micro-batch and then averaged it is another loss: 0.66 of it in our example.
    """
    return float(batch.lengths[batch.live].sum().clamp(min=1))


def seq_mean_token_mean(batch: RewardBatch, *, count: Count = "planned") -> Tensor:
    """The mean over sequences of the mean over their tokens.

        S_i = n |y_i|

    n trajectories of the update, planned or live by `count`.

    Source: Shao et al. 2024, GRPO, arXiv 2402.03300.
    Trap: a token of a long response weighs less; `live` scales up when rollouts fail.
    """
    return _sequences(batch, count) * batch.lengths.clamp(min=1)


def seq_mean_token_sum(batch: RewardBatch, *, count: Count = "planned") -> float:
    """The mean over sequences of the sum over their tokens.

        S = n

    n trajectories of the update, planned or live by `count`.

    Source: Williams 1992, REINFORCE; Liu et al. 2025, arXiv 2503.20783, up to the constant L_cap.
    """
    return float(_sequences(batch, count))


def _sequences(batch: RewardBatch, count: Count) -> int:
    return max(1, batch.members if count == "planned" else int(batch.live.sum()))
