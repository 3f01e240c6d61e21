"""CISPO under both published conventions of its upper bound."""

from __future__ import annotations

from mintact_algorithm_grpo.objectives.ratios import Surrogate, log_ratio
from mintact_platform.training.objective import LossBatch


def cispo(
    batch: LossBatch, *, clip_low: float = 1.0, clip_high: float = 4.0, kappa: float = 20.0
) -> Surrogate:
    """CISPO: the importance weight is clipped, no token loses its gradient.

        l = −sg[clip(r, 1−ε_low, 1+ε_high)] · Â · ℓ,  r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε_low = `clip_low` (1: no lower bound), ε_high = `clip_high`, κ = `kappa`.

    Source: MiniMax 2025, MiniMax-M1, arXiv 2506.13585.
    Trap: the bound is 1+ε_high, as in verl, slime and SkyRL; in TRL ε *is* it: `cispo_bound`.
    """
    r = log_ratio(batch, kappa).detach().exp()
    weight = r.clamp(1 - clip_low, 1 + clip_high)
    return -weight * batch.advantages * batch.logprobs, {
        "clip_high": r > 1 + clip_high,
        "clip_low": r < 1 - clip_low,
    }


def cispo_bound(batch: LossBatch, *, bound: float = 5.0, kappa: float = 20.0) -> Surrogate:
    """CISPO whose parameter is the bound itself.

        l = −sg[min(r, ε)] · Â · ℓ,  r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε = `bound`, κ = `kappa`; the same as `cispo` with ε_high = ε − 1.

    Source: MiniMax 2025, MiniMax-M1, arXiv 2506.13585, in TRL's convention.
    """
    return cispo(batch, clip_low=1.0, clip_high=bound - 1, kappa=kappa)
