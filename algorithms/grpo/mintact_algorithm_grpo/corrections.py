"""Importance weights of the proximal against the rollout policy, `[rows, tokens]`.

They change the measure and not the objective, so no gradient flows through them.
"""

from __future__ import annotations

from torch import Tensor


def none(proximal_logprobs: Tensor, rollout_logprobs: Tensor, loss_mask: Tensor) -> Tensor:
    """No correction: w = 1."""
    return proximal_logprobs.new_ones(proximal_logprobs.shape)


def truncate(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    cap: float = 2.0,
    kappa: float = 20.0,
) -> Tensor:
    """Truncated weight w = sg[min(π_prox / π_roll, C)]; one-sided, small weights stay small.

    Args:
        proximal_logprobs: ℓ_prox.
        rollout_logprobs: ℓ_roll.
        loss_mask: not needed here.
        cap: C.
        kappa: guard of the log-ratio against overflow.
    """
    ratio = (proximal_logprobs - rollout_logprobs).clamp(-kappa, kappa).exp()
    return ratio.clamp(max=cap).detach()
