"""`check_objective`: shapes, gradients, masks, invariances and declared needs of a loss."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from mintact_platform.errors import PluginError
from mintact_platform.testing.batches import extreme_batch, pad, rows_of, usual_batch
from mintact_platform.testing.conformance import Subject, find, unbound
from mintact_platform.training.loss import Loss, evaluate_loss
from mintact_platform.training.objective import EXTRAS, Habits, LossBatch, LossParts, habits_of

_S = 24.0
_TOLERANCE = 1e-4
"""Relative; sums of float32 in another order differ by less."""


def check_objective(
    objective_or_name: str | Callable[..., Any], *, params: Mapping[str, Any] | None = None
) -> None:
    """Whether an objective keeps the contract of a loss.

    Args:
        objective_or_name: registered name, or the function.
        params: its parameters.

    Raises:
        ConformanceError: the first thing that is wrong.
    """
    subject = find("objectives", objective_or_name, params, given=lambda target: 1)
    checked = _Objective(subject)
    usual = usual_batch(checked.habits.needs)
    whole = checked.graded("it gives a loss for a batch", usual)
    checked.check_result(usual, whole)
    checked.check_repeat(usual, whole)
    checked.check_padding(usual, whole)
    checked.check_order(usual, whole)
    if checked.habits.micro_batch_invariant:
        checked.check_micro_batches(usual, whole)
    checked.check_extremes()


class _Graded:
    """A loss with its gradient on ℓ, and on the entropy where that is an input."""

    def __init__(self, loss: Loss, batch: LossBatch) -> None:
        self.value = loss.value.detach()
        self.connected = loss.value.requires_grad
        sources = [batch.logprobs, *(x for x in batch.extras.values() if x.requires_grad)]
        found: tuple[Tensor | None, ...] = (None,) * len(sources)
        if self.connected:
            found = torch.autograd.grad(loss.value, sources, allow_unused=True)
        self.gradient = torch.stack(
            [
                torch.zeros_like(source) if gradient is None else gradient
                for source, gradient in zip(sources, found, strict=True)
            ]
        )
        """`[sources, rows, tokens]`."""


class _Objective:
    """An objective with its parameters bound, evaluated as a trainer does, without correction."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        bound = functools.partial(subject.target, **subject.params)
        self.habits: Habits = habits_of(unbound(subject.target))
        self._parts = LossParts(
            advantage=lambda batch: batch.rewards,
            objective=bound,
            correction=lambda proximal, rollout, mask: torch.ones_like(proximal),
            normaliser=lambda batch: _S,
            names={"objective": subject.name, "correction": "none"},
            habits=self.habits,
        )

    def graded(self, check: str, batch: LossBatch) -> _Graded:
        """The loss and its gradient.

        Raises:
            ConformanceError: it cannot be evaluated.
        """
        batch = _with_gradient(batch)
        try:
            return _Graded(evaluate_loss(self._parts, batch, _S), batch)
        except PluginError as error:
            fix = error.next or _FIX
            if error.__cause__ is not None:
                raise self._subject.raised(check, error.__cause__, fix=fix) from error
            raise self._subject.error(check, seen=error.what, fix=fix) from error
        except RuntimeError as error:
            fix = "the surrogate must be differentiable in batch.logprobs: no in-place operations"
            raise self._subject.raised(check, error, fix=fix) from error

    def check_result(self, batch: LossBatch, whole: _Graded) -> None:
        """It has a gradient, which is finite."""
        if not whole.connected or not bool(whole.gradient[:, batch.loss_mask].any()):
            raise self._subject.error(
                "it has a gradient",
                seen="the loss does not depend on batch.logprobs: nothing would be learnt",
                fix="detach weights, not batch.logprobs: the surrogate is minimised by its "
                "gradient",
            )
        self._check_finite("its gradient is finite", whole)

    def check_repeat(self, batch: LossBatch, whole: _Graded) -> None:
        """It leaves the batch alone and says the same again."""
        given = _with_gradient(batch)
        before = {name: value.detach().clone() for name, value in _tensors(given).items()}
        evaluate = self._parts.objective
        evaluate(given)
        for name, value in _tensors(given).items():
            if not torch.equal(value.detach(), before[name]):
                raise self._subject.error(
                    "it only reads its batch",
                    seen=f"batch.{name} changed",
                    fix="use operations without a trailing underscore: other parts read it too",
                )
        again = self.graded("it can be asked twice", batch)
        fix = "keep no state between calls and draw no random numbers"
        self._check_equal("the same batch gives the same loss", whole, again, fix)

    def check_padding(self, batch: LossBatch, whole: _Graded) -> None:
        """Padding and rows without supervised tokens change nothing."""
        width = batch.loss_mask.shape[1]
        wide = self.graded("it takes a wider batch", pad(batch, columns=3))
        wide.gradient = wide.gradient[:, :, :width]
        self._check_equal("masked tokens contribute nothing", whole, wide, _MASK)
        tall = self.graded("it takes a row without tokens", pad(batch, rows=2))
        tall.gradient = tall.gradient[:, : len(batch.group)]
        self._check_equal("masked rows contribute nothing", whole, tall, _MASK)

    def check_order(self, batch: LossBatch, whole: _Graded) -> None:
        """Rows may come in any order."""
        order = torch.arange(len(batch.group)).flip(0)
        turned = self.graded("it takes rows in another order", rows_of(batch, order))
        turned.gradient = turned.gradient[:, order]
        self._check_equal(
            "the order of rows does not matter", whole, turned,
            "tell rows apart by batch.group and batch.trajectory, not by their place",
        )  # fmt: skip

    def check_micro_batches(self, batch: LossBatch, whole: _Graded) -> None:
        """Parts of an update add up to it, where that is declared."""
        rows = torch.arange(len(batch.group))
        # groups and segments of a trajectory come apart
        halves = (rows[::2], rows[1::2])
        parts = [self.graded("it takes a part", rows_of(batch, half)) for half in halves]
        joined = parts[0]
        joined.value = torch.stack([part.value for part in parts]).sum()
        gradient = torch.cat([part.gradient for part in parts], dim=1)
        joined.gradient = gradient[:, torch.cat(halves).argsort()]
        self._check_equal(
            "micro-batches add up to the whole update", whole, joined,
            "a token's surrogate may depend on its own row only; one that depends on others "
            "declares @objective(micro_batch_invariant=False) and then sees all rows at once",
        )  # fmt: skip

    def check_extremes(self) -> None:
        """Loss and gradient stay finite where the policies disagree completely."""
        check = "loss and gradient are finite at extreme log-ratios"
        self._check_finite(check, self.graded(check, extreme_batch(self.habits.needs)))

    def _check_finite(self, check: str, graded: _Graded) -> None:
        bad = int((~graded.gradient.isfinite()).sum())
        if bad or not bool(graded.value.isfinite()):
            raise self._subject.error(
                check,
                seen=f"loss {float(graded.value):g}, gradient not finite at {bad} tokens",
                fix="clamp a log-ratio before exp: (ℓ - ℓ_prox).clamp(-20, 20).exp(); add ε "
                "under square roots and divisions",
            )

    def _check_equal(self, check: str, one: _Graded, other: _Graded, fix: str) -> None:
        if not _close(one.value, other.value):
            seen = f"the loss is {float(one.value):.6g} and {float(other.value):.6g}"
            raise self._subject.error(check, seen=seen, fix=fix)
        if not _close(one.gradient, other.gradient):
            off = float((one.gradient - other.gradient).abs().max())
            seen = f"the gradient of a token differs by {off:.3g}"
            raise self._subject.error(check, seen=seen, fix=fix)


_FIX = "return the surrogate [rows, tokens] to minimise, or (surrogate, {metric: tensor})"
_MASK = (
    "what stands outside of batch.loss_mask is 0 and no data: count with "
    "batch.loss_mask.sum(), never with numel() or mean(), and avoid 0/0 and sqrt(0) there"
)


def _with_gradient(batch: LossBatch) -> LossBatch:
    """A copy whose ℓ and entropy are leaves of a graph."""

    def leaf(name: str, value: Tensor) -> Tensor:
        copy = value.detach().clone()
        return copy.requires_grad_() if name in ("logprobs", "entropy") else copy

    tensors: dict[str, Any] = {n: leaf(n, value) for n, value in _tensors(batch).items()}
    extras = {name: tensors.pop(name) for name in batch.extras}
    return replace(batch, **tensors, extras=extras)


def _tensors(batch: LossBatch) -> dict[str, Tensor]:
    own = {f.name: getattr(batch, f.name) for f in fields(batch)}
    found = {name: value for name, value in own.items() if isinstance(value, Tensor)}
    return {**found, **{name: batch.extras[name] for name in EXTRAS if name in batch.extras}}


def _close(one: Tensor, other: Tensor) -> bool:
    scale = float(one.abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * max(scale, 1e-6))
