"""Importance weights w of the proximal against the rollout policy, `[rows, tokens]`.

They change the measure and not the objective, so no gradient flows through them. With d =
ℓ_prox − ℓ_roll, the ratio of a token is eᵈ, that of a sequence exp(Σ d), its geometric mean
exp(Σ d / |y|); each log is clipped to ±κ. A sequence is a row.
"""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from mintact_algorithm_grpo.objectives.ratios import sequence_mean, sequence_sum

Level = Literal["token", "sequence", "geometric"]
"""What a bound is held against."""


def none(proximal_logprobs: Tensor, rollout_logprobs: Tensor, loss_mask: Tensor) -> Tensor:
    """No correction.

        w = 1

    Trap: engine and trainer differ even for equal weights; `rollout_gap` says by how much.
    """
    return proximal_logprobs.new_ones(proximal_logprobs.shape)


def truncate(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    cap: float = 2.0,
    level: Literal["token", "sequence"] = "token",
    kappa: float = 20.0,
) -> Tensor:
    """Truncated importance sampling (TIS): large weights are cut, small ones stay small.

        w = sg[min(π_prox / π_roll, C)]

    C = `cap`, κ = `kappa`; the ratio is a token's or, by `level`, its sequence's.

    Source: MintAct; Yao et al. 2025, TIS.
    Trap: caps differ: 2 a token here and in verl, 1.2 in ROLL, 3 in TRL.
    """
    ratio = _ratio(proximal_logprobs - rollout_logprobs, loss_mask, level, kappa)
    return ratio.clamp(max=cap).detach()


def truncate_sequence(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    cap: float = 5.0,
    kappa: float = 20.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Truncated importance sampling by whole sequences.

        w = sg[min(Π_t π_prox / π_roll, C)], the same on all tokens of a row

    C = `cap`, κ = `kappa`.

    Source: Yao et al. 2025, TIS; SkyRL's default cap.
    Trap: unbiased over sequences, and of a variance that grows with length.
    """
    policies = (proximal_logprobs, rollout_logprobs, loss_mask)
    raw = truncate(*policies, cap=math.inf, level="sequence", kappa=kappa)
    return raw.clamp(max=cap), {"importance_weight_truncated": raw > cap}


def mask(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    low: float = 0.5,
    high: float = 5.0,
    level: Level = "token",
    kappa: float = 20.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Masked importance sampling (MIS, IcePop): what left the bounds teaches nothing.

        w = sg[π_prox / π_roll] where lo ≤ ρ ≤ hi, else 0

    lo = `low`, hi = `high`; ρ by `level`: the ratio of the token, of the sequence, or its
    geometric mean. The weight is the sequence's for `sequence`, else the token's. κ = `kappa`.

    Source: Ling Team 2025, IcePop, arXiv 2510.18855; Liu et al. 2025, MIS.
    Trap: masked tokens still count in the normaliser.
    """
    d = proximal_logprobs - rollout_logprobs
    weight = _ratio(d, loss_mask, "sequence" if level == "sequence" else "token", kappa)
    held = _ratio(d, loss_mask, level, kappa)
    outside = (held < low) | (held > high)
    return weight.masked_fill(outside, 0.0).detach(), {"importance_weight_truncated": outside}


def mask_sequence(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    low: float = 0.5,
    high: float = 5.0,
    kappa: float = 20.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Masked importance sampling by whole sequences.

        w = sg[Π_t π_prox / π_roll] where lo ≤ it ≤ hi, else 0

    lo = `low`, hi = `high`, κ = `kappa`; `mask` with `level = "sequence"`.

    Source: Liu et al. 2025, MIS.
    """
    policies = (proximal_logprobs, rollout_logprobs, loss_mask)
    return mask(*policies, low=low, high=high, level="sequence", kappa=kappa)


def mask_geometric(
    proximal_logprobs: Tensor,
    rollout_logprobs: Tensor,
    loss_mask: Tensor,
    *,
    low: float = 0.999,
    high: float = 1.002,
    kappa: float = 20.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Whole sequences masked by their geometric mean ratio, the rest weighted token by token.

        w = sg[π_prox / π_roll] where lo ≤ exp(Σ d / |y|) ≤ hi, else 0

    lo = `low`, hi = `high`, κ = `kappa`; `mask` with `level = "geometric"`.

    Source: NeMo-RL, seq-mask-tis.
    Trap: the bounds are tight since the mean is over all tokens of a sequence.
    """
    policies = (proximal_logprobs, rollout_logprobs, loss_mask)
    return mask(*policies, low=low, high=high, level="geometric", kappa=kappa)


def _ratio(d: Tensor, loss_mask: Tensor, level: Level, kappa: float) -> Tensor:
    if level == "sequence":
        d = sequence_sum(d, loss_mask).expand(d.shape)
    elif level == "geometric":
        d = sequence_mean(d, loss_mask).expand(d.shape)
    return d.clamp(-kappa, kappa).exp()
