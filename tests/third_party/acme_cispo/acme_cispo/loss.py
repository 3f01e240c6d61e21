"""A loss in a dozen lines."""


def cispo(batch, *, bound: float = 5.0):
    """CISPO: a bounded weight on the policy gradient.

        l = −sg[min(π_θ / π_prox, ε)] · Â · ℓ

    Source: acme.
    """
    ratio = (batch.logprobs - batch.proximal_logprobs).detach().clamp(-20, 20).exp()
    weight = ratio.clamp(max=bound)
    return -weight * batch.advantages * batch.logprobs, {"acme_bounded": ratio > bound}
