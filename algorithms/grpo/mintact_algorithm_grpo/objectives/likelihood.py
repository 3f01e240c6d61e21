"""Objectives without a ratio: REINFORCE and cross-entropy."""

from __future__ import annotations

from torch import Tensor

from mintact_platform.training.objective import LossBatch


def reinforce(batch: LossBatch) -> Tensor:
    """REINFORCE: the plain policy gradient.

        l = −Âℓ

    Source: Williams 1992.
    Trap: unbiased only on the policy's own samples; add a correction when they are stale.
    """
    return -batch.advantages * batch.logprobs


def sft(batch: LossBatch) -> Tensor:
    """Cross-entropy on the sampled tokens, whatever their advantage.

        l = −ℓ

    Source: maximum likelihood.
    Trap: rows with a bad reward are learnt as well; `reinforce` with `rejection` leaves them out.
    """
    return -batch.logprobs
