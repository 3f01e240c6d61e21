"""Terms to add to any objective: three estimators of KL(π_θ ‖ π_ref), and an entropy bonus.

Named under `objective.terms`; the correction's weight does not multiply them.
"""

from __future__ import annotations

from torch import Tensor

from mintact_platform.training.objective import LossBatch, objective


@objective(needs={"reference_logprobs"})
def kl_k1(batch: LossBatch, *, coefficient: float = 1e-3) -> Tensor:
    """KL penalty, estimator k1.

        l = β (ℓ − ℓ_ref)

    β = `coefficient`.

    Source: Schulman 2020, Approximating KL divergence.
    Trap: unbiased in value; as a loss its expected gradient is 0, it does not hold the policy.
    """
    return coefficient * (batch.logprobs - batch.reference_logprobs)


@objective(needs={"reference_logprobs"})
def kl_k2(batch: LossBatch, *, coefficient: float = 1e-3) -> Tensor:
    """KL penalty, estimator k2: on the policy's own samples its gradient is that of the KL.

        l = (β/2)(ℓ − ℓ_ref)²

    β = `coefficient`.

    Source: Schulman 2020, Approximating KL divergence.
    """
    return coefficient / 2 * (batch.logprobs - batch.reference_logprobs).square()


@objective(needs={"reference_logprobs"})
def kl_k3(
    batch: LossBatch,
    *,
    coefficient: float = 1e-3,
    straight_through: bool = False,
    kappa: float = 20.0,
    cap: float = 10.0,
) -> Tensor:
    """KL penalty, estimator k3: never negative, small variance.

        l = β min(eˣ − x − 1, cap),  x = clip(ℓ_ref − ℓ, ±κ)

    β = `coefficient`; `straight_through` keeps this value and takes the gradient of k2.

    Source: Schulman 2020, Approximating KL divergence; clips as in verl.
    Trap: its gradient is that of the forward KL; beyond κ or cap it is 0.
    """
    x = batch.reference_logprobs - batch.logprobs
    guarded = x.clamp(-kappa, kappa)
    k3 = (guarded.exp() - guarded - 1).clamp(max=cap)
    if straight_through:
        k2 = x.square() / 2
        k3 = k2 + (k3 - k2).detach()
    return coefficient * k3


@objective(needs={"entropy"})
def entropy_bonus(batch: LossBatch, *, coefficient: float = 1e-3) -> Tensor:
    """Entropy bonus: a reward for staying undecided.

        l = −β H(π_θ)

    β = `coefficient`, H in nats over the whole vocabulary, after temperature.

    Source: Williams and Peng 1991.
    """
    return -coefficient * batch.entropy
