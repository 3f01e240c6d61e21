"""The clipped token-level family: PPO, clip-higher, dual clip, MintAct, decoupled PPO."""

from __future__ import annotations

import math

from mintact_algorithm_grpo.objectives.ratios import Surrogate, clipped, log_ratio
from mintact_platform.training.objective import LossBatch, objective


def mintact(
    batch: LossBatch,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    clip_dual: float = 3.0,
    kappa: float = 20.0,
) -> Surrogate:
    """The paper's surrogate: asymmetric clip and dual clip.

        l = max(−Âr, −Â clip(r, 1−ε_low, 1+ε_high)), at most −cÂ where Â < 0
        r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε_low = `clip_low`, ε_high = `clip_high`, c = `clip_dual`, κ = `kappa`.

    Source: MintAct.
    Trap: beyond ±κ the ratio carries no gradient; Â < 0 is strict.
    """
    d = log_ratio(batch, kappa)
    return clipped(d, batch.advantages, low=clip_low, high=clip_high, dual=clip_dual)


def ppo_clip(batch: LossBatch, *, clip: float = 0.2, kappa: float = 20.0) -> Surrogate:
    """PPO's and GRPO's surrogate: equal clips, no dual clip.

        l = max(−Âr, −Â clip(r, 1−ε, 1+ε)),  r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε = `clip`, κ = `kappa`.

    Source: Schulman et al. 2017, PPO, arXiv 1707.06347; Shao et al. 2024, GRPO, arXiv 2402.03300.
    Trap: GRPO divides each sequence by its length first: `seq_mean_token_mean`.
    """
    return mintact(batch, clip_low=clip, clip_high=clip, clip_dual=math.inf, kappa=kappa)


def clip_higher(
    batch: LossBatch, *, clip_low: float = 0.2, clip_high: float = 0.28, kappa: float = 20.0
) -> Surrogate:
    """DAPO's surrogate: a wider upper clip, so that unlikely tokens can grow.

        l = max(−Âr, −Â clip(r, 1−ε_low, 1+ε_high)),  r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε_low = `clip_low`, ε_high = `clip_high`, κ = `kappa`.

    Source: Yu et al. 2025, DAPO, arXiv 2503.14476.
    Trap: goes with `token_mean` over the whole update, not over a micro-batch.
    """
    return mintact(batch, clip_low=clip_low, clip_high=clip_high, clip_dual=math.inf, kappa=kappa)


def dual_clip(
    batch: LossBatch, *, clip: float = 0.2, clip_dual: float = 3.0, kappa: float = 20.0
) -> Surrogate:
    """PPO with a ceiling where Â < 0: no very unlikely token can dominate.

        l = max(−Âr, −Â clip(r, 1−ε, 1+ε)), at most −cÂ where Â < 0
        r = exp(clip(ℓ − ℓ_prox, ±κ))

    ε = `clip`, c = `clip_dual`, κ = `kappa`.

    Source: Ye et al. 2020, arXiv 1912.09729.
    Trap: defaults differ: c = 3 in verl and SkyRL, 1 + 2ε in ROLL, none in TRL and AReaL.
    """
    return mintact(batch, clip_low=clip, clip_high=clip, clip_dual=clip_dual, kappa=kappa)


@objective(correction="own")
def decoupled_ppo(
    batch: LossBatch, *, clip: float = 0.2, cap: float = math.inf, kappa: float = 20.0
) -> Surrogate:
    """PPO around π_prox, weighted by π_prox against the policy that sampled.

        l = w · max(−Âr, −Â clip(r, 1−ε, 1+ε)),  r = exp(clip(ℓ − ℓ_prox, ±κ))
        w = sg[π_prox / π_roll], 0 where it is above C

    ε = `clip`, C = `cap`, κ = `kappa` guards both log-ratios.

    Source: Hilton et al. 2022, arXiv 2110.00641; Fu et al. 2025, AReaL, arXiv 2505.24298.
    Trap: tokens above C still count in the normaliser.
    """
    gap = batch.proximal_logprobs - batch.rollout_logprobs
    w = gap.clamp(-kappa, kappa).exp().detach()
    w = w.where(w <= cap, 0.0)
    surrogate, metrics = ppo_clip(batch, clip=clip, kappa=kappa)
    return w * surrogate, {**metrics, "importance_weight": w}
