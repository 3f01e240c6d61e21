"""Log-probabilities of chosen tokens over a large vocabulary, a slice of tokens at a time.

Shapes: n tokens, H hidden size, V vocabulary; `[n, V]` never exists, in the backward neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def target_logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int
) -> Tensor:
    """Log π of the targets after temperature, float32 `[n]`.

    Args:
        hidden: `[n, H]`.
        weight: of the output layer `[V, H]`.
        targets: `[n]` ids.
        temperature: float32 `[n]`; no gradient flows to it.
        chunk: tokens a slice.
    """
    result: Tensor = _TargetLogprobs.apply(hidden, weight, targets, temperature, chunk)  # type: ignore[no-untyped-call]
    return result


class _TargetLogprobs(torch.autograd.Function):
    """Logits are made again in the backward, and turned into their gradient in place.

    With g = ∂L/∂ℓ and p = softmax(z / T): ∂L/∂z = (g / T)(onehot − p).
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int
    ) -> Tensor:
        logits = _Logits(hidden, weight, temperature, chunk)
        parts = [_logprobs(logits(s), targets[s, None]) for s in _slices(len(hidden), chunk)]
        logprobs = torch.cat(parts)[:, 0]
        ctx.save_for_backward(hidden, weight, targets, temperature, logprobs)
        ctx.chunk = chunk
        return logprobs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, temperature, logprobs = ctx.saved_tensors
        scale = (gradients[0] / temperature)[:, None]
        to_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        logits = _Logits(hidden, weight, temperature, ctx.chunk)
        for s in _slices(len(hidden), ctx.chunk):
            values, chosen = logits(s), targets[s, None]
            total = values.gather(1, chosen) - logprobs[s, None]
            slope = values.sub_(total).exp_().mul_(-scale[s]).scatter_add_(1, chosen, scale[s])
            slope = slope.to(weight.dtype)
            if to_hidden is not None:
                torch.mm(slope, weight, out=to_hidden[s])
            if to_weight is not None:
                to_weight.addmm_(slope.T, hidden[s])
        return to_hidden, to_weight, None, None, None


class _Logits:
    """Logits after temperature, float32 `[slice, V]`, each slice written over the one before.

    Fresh memory for each would be paid for in page faults: a third of the time on a CPU.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, temperature: Tensor, chunk: int) -> None:
        self._hidden, self._weight, self._temperature = hidden, weight, temperature
        self._raw = hidden.new_empty(min(chunk, len(hidden)), len(weight))
        self._values = self._raw if self._raw.dtype == torch.float32 else self._raw.float()

    def __call__(self, s: slice) -> Tensor:
        raw, values = self._raw[: s.stop - s.start], self._values[: s.stop - s.start]
        torch.mm(self._hidden[s], self._weight.T, out=raw)
        if values.dtype != raw.dtype:
            values.copy_(raw)
        return values.div_(self._temperature[s, None])


def _logprobs(logits: Tensor, chosen: Tensor) -> Tensor:
    """Log-softmax of the chosen columns `[n, 1]`; the logits are used up."""
    top = logits.amax(-1, keepdim=True)
    lead = logits.gather(1, chosen) - top
    return lead - logits.sub_(top).exp_().sum(-1, keepdim=True).log_()


def _slices(count: int, chunk: int) -> Iterator[slice]:
    """Slices of at most `chunk`; one empty slice for nothing."""
    for start in range(0, max(count, 1), chunk):
        yield slice(start, min(start + chunk, count))
