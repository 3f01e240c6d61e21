"""Objectives made for stale samples: TOPR, DPPO-TV, and the squared drift of Kimi and DRO."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from mintact_algorithm_grpo.objectives.ratios import Surrogate, sequence_sum
from mintact_platform.errors import ConfigurationError
from mintact_platform.training.objective import LossBatch, objective


@objective(correction="own")
def topr(
    batch: LossBatch,
    *,
    weight_positive: float = 1.0,
    weight_negative: float = 1.0,
    level: Literal["token", "sequence"] = "token",
) -> Surrogate:
    """TOPR: good samples as they are, bad ones only as far as the policy still makes them.

        l = −a₊Âℓ where R > 0, else −a₋ sg[min(r, 1)] Âℓ;  r = π_θ / π_roll

    a₊ = `weight_positive`, a₋ = `weight_negative`; r of a token, or the product over a sequence.

    Source: Le Roux et al. 2025, TOPR, arXiv 2503.14286.
    Trap: the sign of R decides, not that of Â; it uses π_roll, so no correction may be added.
    """
    if batch.rewards is None:
        raise ConfigurationError("rewards are not given", next="topr decides by the sign of R")
    gap = (batch.logprobs - batch.rollout_logprobs).detach()
    gap = gap if level == "token" else sequence_sum(gap, batch.loss_mask).expand(gap.shape)
    taper = weight_negative * gap.clamp(max=0.0).exp()
    weight = taper.masked_fill((batch.rewards > 0)[:, None], weight_positive)
    return -weight * batch.advantages * batch.logprobs, {"importance_weight": weight}


@objective(correction="own")
def dppo_tv(
    batch: LossBatch,
    *,
    delta_low: float = 0.2,
    delta_high: float = 0.2,
    tau: float = 0.0,
    kappa: float = 20.0,
) -> Surrogate:
    """DPPO-TV: a token drops out when its probability has moved too far.

        l = −M · Â · r + τ(ℓ − ℓ_roll)²,  r = exp(clip(ℓ − ℓ_roll, ±κ))
        M = 0 where Â > 0, p − p_roll > δ_high or Â < 0, p_roll − p > δ_low, else 1

    δ_low = `delta_low`, δ_high = `delta_high`, τ = `tau` (prime-rl: 0.001), κ = `kappa`.

    Source: Qi et al. 2026, DPPO, arXiv 2602.04879.
    Trap: it uses π_roll, so no correction may be added.
    """
    A, drift = batch.advantages, batch.logprobs - batch.rollout_logprobs
    moved = (batch.logprobs.exp() - batch.rollout_logprobs.exp()).detach()
    high, low = (A > 0) & (moved > delta_high), (A < 0) & (-moved > delta_low)
    weight = drift.clamp(-kappa, kappa).exp() * ~(high | low)
    return -A * weight + tau * drift.square(), {
        "clip_high": high,
        "clip_low": low,
        "importance_weight": weight.detach(),
    }


def dro(batch: LossBatch, *, beta: float = 0.1) -> Tensor:
    """DRO: policy gradient with a squared drift from the proximal policy.

        l = −Âℓ + (β/2)(ℓ − ℓ_prox)²

    β = `beta`.

    Source: Richemond et al. 2024, DRO, arXiv 2405.19107, per token.
    """
    drift = batch.logprobs - batch.proximal_logprobs
    return -batch.advantages * batch.logprobs + beta / 2 * drift.square()


def kimi(batch: LossBatch, *, tau: float = 0.1) -> Tensor:
    """Kimi k1.5's mirror descent: DRO with the paper's symbol.

        l = −Âℓ + (τ/2)(ℓ − ℓ_prox)²

    τ = `tau`.

    Source: Kimi Team 2025, Kimi k1.5, arXiv 2501.12599, per token as in ROLL.
    """
    return dro(batch, beta=tau)
