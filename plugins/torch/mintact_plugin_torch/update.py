"""One optimiser update by policy gradient: ℓ, ℓ_prox, loss and gradient over micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mintact_platform.training.loss import Loss, evaluate_loss
from mintact_platform.training.objective import LossBatch, LossParts
from mintact_plugin_torch import weights
from mintact_plugin_torch.forward import Forward, TokenBatch

Prox = Literal["deployed", "current", "behaviour"]


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Rows of one forward pass with all that the loss reads besides ℓ.

    Attributes:
        tokens: what the model reads.
        advantages: float32 `[rows, tokens]`.
        rewards: float32 `[rows]`.
        group: int64 `[rows]`.
        trajectory: int64 `[rows]`, index into the request.
        domain: int64 `[rows]`.
        proximal: ℓ_prox; None takes ℓ of the same forward.
        reference: ℓ of the weights the run started from, where the objective needs it.
    """

    tokens: TokenBatch
    advantages: Tensor
    rewards: Tensor
    group: Tensor
    trajectory: Tensor
    domain: Tensor
    proximal: Tensor | None = None
    reference: Tensor | None = None


class Slope(NamedTuple):
    """∂L/∂ℓ and ∂L/∂entropy of a micro-batch, `[rows, tokens]`; None where L does not depend."""

    logprobs: Tensor | None
    entropy: Tensor | None


def proximal(
    forward: Forward, batches: Sequence[MicroBatch], prox: Prox, deployed: weights.Weights
) -> list[MicroBatch]:
    """The micro-batches with ℓ_prox, computed before the update moves θ.

    `deployed` weights are swapped in for a forward of their own; where they equal θ, and for
    `current`, ℓ of the update's own forward serves and nothing is computed here.
    """
    if prox == "behaviour":
        return [replace(batch, proximal=batch.tokens.rollout_logprobs) for batch in batches]
    model = forward.policy.model
    if prox == "current" or weights.equal(model, deployed):
        return list(batches)
    with weights.swapped(model, deployed):
        return [replace(batch, proximal=no_grad(forward, batch)) for batch in batches]


@torch.no_grad()
def no_grad(forward: Forward, batch: MicroBatch) -> Tensor:
    """ℓ `[rows, tokens]` under the weights that the model holds."""
    return forward.logprobs(batch.tokens)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """Evaluates an update's loss and leaves its gradient on the parameters.

    Attributes:
        forward: runs the model.
        parts: of the loss.
        S: normaliser of the update: one number, or one for each trajectory of the request.
        domains: names.
        deployed: version of θ^(deployed).
    """

    forward: Forward
    parts: LossParts
    S: float | Tensor
    domains: tuple[str, ...]
    deployed: int

    def accumulate(self, batches: Sequence[MicroBatch]) -> list[Loss]:
        """The loss of each micro-batch; their sum is the update's."""
        if self.parts.habits.micro_batch_invariant or len(batches) == 1:
            return [self._one(batch) for batch in batches]
        return [self._together(batches)]

    def _one(self, batch: MicroBatch) -> Loss:
        wanted = "entropy" in self.parts.habits.needs
        logprobs, entropy = self.forward.logprobs(batch.tokens, entropy=wanted)
        loss = self._loss(batch, logprobs, entropy)
        loss.value.backward()  # type: ignore[no-untyped-call]
        return replace(loss, value=loss.value.detach())

    def _together(self, batches: Sequence[MicroBatch]) -> Loss:
        """The loss of an objective that must see the whole update at once."""
        losses, slopes = self.evaluate(batches)
        for batch, slope in zip(batches, slopes, strict=True):
            self.push_back(batch, slope)
        return losses[0]

    def evaluate(self, batches: Sequence[MicroBatch]) -> tuple[list[Loss], list[Slope]]:
        """The loss as `accumulate` gives it and its slope in each micro-batch; no gradient yet."""
        with torch.no_grad():
            outputs = [self.forward.logprobs(batch.tokens) for batch in batches]
        if self.parts.habits.micro_batch_invariant or len(batches) == 1:
            single = [self._sloped(b, *output) for b, output in zip(batches, outputs, strict=True)]
            return [loss for loss, _ in single], [slope for _, slope in single]
        whole, slope = self._sloped(
            _join_batches(batches),
            join([output[0] for output in outputs]),
            join([output[1] for output in outputs]),
        )
        slopes, start = [], 0
        for batch in batches:
            rows = slice(start, start + len(batch.group))
            start, width = rows.stop, batch.tokens.mask.shape[1]
            slopes.append(Slope(*(None if g is None else g[rows, :width] for g in slope)))
        return [whole], slopes

    def push_back(self, batch: MicroBatch, slope: Slope) -> None:
        """Add the gradient that a slope gives to the parameters, through a second forward."""
        wanted = "entropy" in self.parts.habits.needs
        outputs = self.forward.logprobs(batch.tokens, entropy=wanted)
        outgoing = [(x, g) for x, g in zip(outputs, slope, strict=True) if g is not None]
        torch.autograd.backward([x for x, _ in outgoing], [g for _, g in outgoing])

    def _sloped(self, batch: MicroBatch, logprobs: Tensor, entropy: Tensor) -> tuple[Loss, Slope]:
        logprobs.requires_grad_()
        entropy.requires_grad_("entropy" in self.parts.habits.needs)
        loss = self._loss(batch, logprobs, entropy)
        loss.value.backward()  # type: ignore[no-untyped-call]
        return replace(loss, value=loss.value.detach()), Slope(logprobs.grad, entropy.grad)

    def _loss(self, batch: MicroBatch, logprobs: Tensor, entropy: Tensor) -> Loss:
        extras = {"entropy": entropy, "reference_logprobs": batch.reference}
        needs = self.parts.habits.needs
        return evaluate_loss(
            self.parts,
            LossBatch(
                logprobs=logprobs,
                proximal_logprobs=logprobs.detach() if batch.proximal is None else batch.proximal,
                rollout_logprobs=batch.tokens.rollout_logprobs,
                advantages=batch.advantages,
                loss_mask=batch.tokens.mask,
                group=batch.group,
                trajectory=batch.trajectory,
                domain=batch.domain,
                domains=self.domains,
                rewards=batch.rewards,
                versions=batch.tokens.versions,
                deployed=self.deployed,
                extras={k: v for k, v in extras.items() if k in needs and v is not None},
            ),
            self.S if isinstance(self.S, float) else self.S.to(logprobs.device)[batch.trajectory],
            observed={"entropy": entropy},
        )


def join(tensors: Sequence[Tensor], fill: float | bool = 0) -> Tensor:
    """Stack `[rows, tokens]` tensors of different widths."""
    width = max(tensor.shape[1] for tensor in tensors)
    padded = [torch.nn.functional.pad(t, (0, width - t.shape[1]), value=fill) for t in tensors]
    return torch.cat(padded)


def _join_batches(batches: Sequence[MicroBatch]) -> MicroBatch:
    first = batches[0]
    tokens = replace(
        first.tokens,
        mask=join([b.tokens.mask for b in batches], fill=False),
        rollout_logprobs=join([b.tokens.rollout_logprobs for b in batches]),
        versions=join([b.tokens.versions for b in batches], fill=-1),
    )

    def optional(tensors: Sequence[Tensor | None]) -> Tensor | None:
        present = [tensor for tensor in tensors if tensor is not None]
        return join(present) if present else None

    return MicroBatch(
        tokens,
        join([b.advantages for b in batches]),
        torch.cat([b.rewards for b in batches]),
        torch.cat([b.group for b in batches]),
        torch.cat([b.trajectory for b in batches]),
        torch.cat([b.domain for b in batches]),
        optional([b.proximal for b in batches]),
        optional([b.reference for b in batches]),
    )
