"""The loss of a batch: the core's mask, correction and S around a plugin's surrogate.

Notation: ℓ = log π_θ, ℓ_prox = log π_prox, ℓ_roll = log π_roll, w = correction weight, S =
normaliser; everything `[rows, tokens]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mintact_platform.errors import MintactError, PluginError
from mintact_platform.training.objective import LossBatch, LossParts, RewardBatch

_NOTHING: Mapping[str, Tensor] = {}
_KAPPA = 20.0
"""Reported ratios are cut at e^κ: a metric is never infinite."""


@dataclass(frozen=True, eq=False)
class Loss:
    """A micro-batch's share of the loss.

    Attributes:
        value: scalar with a gradient, Σ m·(sg(w)·surrogate + Σ terms) / S.
        tokens: per-token metrics `[n]` of the n supervised tokens, detached.
        domain: `[n]` domain name index of each token.
        domains: names.
        rows: `[rows]` what each row adds to the value, detached.
        row_domain: `[rows]` domain name index of each row.
    """

    value: Tensor
    tokens: Mapping[str, Tensor]
    domain: Tensor
    domains: tuple[str, ...]
    rows: Tensor
    row_domain: Tensor


def evaluate_advantages(parts: LossParts, batch: RewardBatch) -> Tensor:
    """Â, float64 `[rows]` or `[rows, tokens]`, 0 for masked rollouts.

    Raises:
        PluginError: wrong shape or a value that is not finite, naming the advantage.
    """
    where = f"advantage {parts.names.get('advantage', '?')!r}"
    for name, values in {"rewards": batch.rewards, **batch.reward_parts}.items():
        _check_finite(values, where, name, batch.live)
    result = _call(parts.advantage, batch, where=where)
    rows = len(batch.rewards)
    if not isinstance(result, Tensor) or result.dim() not in (1, 2) or len(result) != rows:
        raise PluginError(
            f"returned {_shape(result)} for {rows} rows",
            where=where,
            next="return [rows] or [rows, tokens]",
        )
    _check_device(result, batch.live, where, "advantages")
    live = batch.live if result.dim() == 1 else batch.live[:, None]
    masked = result.masked_fill(~live, 0.0).double()
    _check_finite(masked, where, "advantages", live.expand(masked.shape))
    return masked


def evaluate_normaliser(parts: LossParts, batch: RewardBatch) -> float | Tensor:
    """S of an update: one number, or one for each trajectory, float64 `[rows]`.

    Raises:
        PluginError: when it is not positive and finite, or of another shape.
    """
    where = f"normaliser {parts.names.get('normaliser', '?')!r}"
    value = _call(parts.normaliser, batch, where=where)
    if isinstance(value, Tensor) and value.shape == batch.rewards.shape:
        bad = int((~(value.isfinite() & (value > 0))).sum())
        if bad:
            raise PluginError(f"S is not positive at {bad} of {len(value)} rows", where=where)
        return value.double()
    if isinstance(value, Tensor) and value.dim():
        raise PluginError(
            f"returned {_shape(value)} for {len(batch.rewards)} rows",
            where=where,
            next="return one number, or [rows]",
        )
    try:
        S = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise PluginError(
            f"returned {_shape(value)}", where=where, next="S is a positive number"
        ) from None
    if not 0 < S < float("inf"):
        raise PluginError(f"returned {S!r}", where=where, next="S is a positive number")
    return S


def evaluate_loss(
    parts: LossParts,
    batch: LossBatch,
    S: float | Tensor,
    observed: Mapping[str, Tensor] = _NOTHING,
) -> Loss:
    """L = Σ m · (sg(w) · surrogate + Σ terms) / S, with its per-token metrics.

    What stands outside the mask is set to 0 before any plugin sees it, so that it can neither
    add to the loss nor spoil a gradient.

    Args:
        parts: the functions.
        batch: rows of a micro-batch.
        S: normaliser of the whole update, or one a row `[rows]`.
        observed: `[rows, tokens]` tensors to report besides, e.g. the entropy.

    Raises:
        PluginError: a wrong shape, name or value, naming the plugin and the field.
    """
    name = f"objective {parts.names.get('objective', '?')!r}"
    batch = _masked(batch, name)
    mask = batch.loss_mask
    surrogate, reported = _evaluated(_call(parts.objective, batch, where=name), mask, name)
    wanted = torch.is_grad_enabled() and batch.logprobs.requires_grad
    if wanted and not surrogate.requires_grad:
        raise PluginError(
            "surrogate has no gradient", where=name, next="compute it from batch.logprobs"
        )
    where = f"correction {parts.names.get('correction', '?')!r}"
    policies = (batch.proximal_logprobs, batch.rollout_logprobs, mask)
    weight, seen = _evaluated(_call(parts.correction, *policies, where=where), mask, where)
    total = surrogate * weight.detach()
    reported = {**seen, **reported}
    for term, function in parts.terms.items():
        where = f"term {term!r}"
        value, more = _evaluated(_call(function, batch, where=where), mask, where)
        total = total + value
        reported |= {term: value, **{f"{term}_{key}": x for key, x in more.items()}}
    metrics = {**_core_metrics(batch, reported.get("importance_weight", weight)), **reported}
    select = _Selection(mask)
    tokens = {key: select(value, name, key) for key, value in metrics.items()}
    tokens |= {key: select(value, "trainer", key) for key, value in observed.items()}
    domain = batch.domain[:, None].expand(mask.shape)[mask]
    total = total.masked_fill(~mask, 0.0)
    rows = total.detach().sum(1) / (S.to(total) if isinstance(S, Tensor) else S)
    return Loss(_divided(total, S), tokens, domain, batch.domains, rows, batch.domain)


def _divided(total: Tensor, S: float | Tensor) -> Tensor:
    if isinstance(S, Tensor):
        return (total.sum(1) / S.to(total)).sum()
    return total.sum() / S


def _evaluated(result: Any, mask: Tensor, where: str) -> tuple[Tensor, Mapping[str, Tensor]]:
    """What a part gave for each token, checked, and the metrics that came with it."""
    value, reported = _split(result, where)
    what = "weight" if where.startswith("correction") else "surrogate"
    _check_shape(value, mask, where, what)
    _check_device(value, mask, where, what)
    if not value.is_floating_point():
        raise PluginError(
            f"{what} holds {value.dtype}", where=where, next="return floating-point numbers"
        )
    _check_finite(value, where, what, mask)
    return value, reported


def _split(result: Any, where: str) -> tuple[Any, Mapping[str, Any]]:
    if not isinstance(result, tuple):
        return result, {}
    if len(result) != 2 or not isinstance(result[1], Mapping):
        raise PluginError(
            "returned a tuple of something else",
            where=where,
            next="return the surrogate, or (surrogate, {metric: tensor})",
        )
    return result


def summarise(losses: Iterable[Loss]) -> dict[str, dict[str, float]]:
    """`{metric: {domain: value}}` over all tokens of a step; domain "" is over all.

    A metric is the mean over its tokens (NaN tokens left out), or their maximum when its name
    ends in `_max`. `effective_sample_size` is (Σw)² / (n Σw²).
    """
    losses = list(losses)
    if not losses:
        return {}
    domains = torch.cat([loss.domain for loss in losses])
    selections = {"": torch.ones_like(domains, dtype=torch.bool)}
    for index in sorted(set(domains.tolist())):
        selections[losses[0].domains[index]] = domains == index
    metrics: dict[str, dict[str, float]] = {}
    for name in losses[0].tokens:
        values = torch.cat([loss.tokens[name] for loss in losses]).double()
        for domain, selected in selections.items():
            chosen = values[selected]
            chosen = chosen[~chosen.isnan()]
            if len(chosen):
                reduced = chosen.max() if name.endswith("_max") else chosen.mean()
                metrics.setdefault(name, {})[domain] = float(reduced)
            if len(chosen) and name == "importance_weight":
                size = chosen.sum() ** 2 / (len(chosen) * chosen.square().sum()).clamp(min=1e-300)
                metrics.setdefault("effective_sample_size", {})[domain] = float(size)
    return metrics


def _core_metrics(batch: LossBatch, weight: Tensor) -> dict[str, Tensor]:
    """What every objective reports; `weight` is the one that was used."""
    gap = (batch.proximal_logprobs - batch.rollout_logprobs).detach()
    ratio = (batch.logprobs - batch.proximal_logprobs).detach().clamp(max=_KAPPA).exp()
    raw, used = gap.clamp(max=_KAPPA).exp(), weight.detach()
    gap = gap.abs()
    metrics = {
        "ratio": ratio,
        "ratio_max": ratio,
        "importance_weight": used,
        "importance_weight_max": used,
        "importance_weight_truncated": raw > used * (1 + 1e-6),
        "rollout_gap": gap,
        "rollout_gap_max": gap,
        "surprise": -batch.logprobs,
    }
    if batch.versions is not None:
        metrics["engine_gap"] = gap.masked_fill(batch.versions != batch.deployed, torch.nan)
    return metrics


class _Selection:
    """Takes the tokens under a mask out of metrics, by places that are found once."""

    def __init__(self, mask: Tensor) -> None:
        self._mask = mask
        self._places = None if mask.all() else mask.flatten().nonzero()[:, 0]

    def __call__(self, value: Any, where: str, name: str) -> Tensor:
        _check_shape(value, self._mask, where, f"metric {name!r}")
        _check_device(value, self._mask, where, f"metric {name!r}")
        flat: Tensor = value.detach().flatten()
        return (flat if self._places is None else flat.index_select(0, self._places)).float()


def _masked(batch: LossBatch, where: str) -> LossBatch:
    empty = ~batch.loss_mask
    names = ("logprobs", "proximal_logprobs", "rollout_logprobs", "advantages")
    given = {**{name: getattr(batch, name) for name in names}, **batch.extras}
    tensors = {}
    for name, tensor in given.items():
        _check_shape(tensor, batch.loss_mask, where, name)
        _check_finite(tensor, where, name, batch.loss_mask)
        tensors[name] = tensor.masked_fill(empty, 0.0)
    extras = {name: tensors.pop(name) for name in batch.extras}
    return replace(batch, **tensors, extras=extras)


def _check_shape(value: Any, mask: Tensor, where: str, what: str) -> None:
    if not isinstance(value, Tensor) or value.shape != mask.shape:
        raise PluginError(
            f"{what} is {_shape(value)} for a batch of {list(mask.shape)}",
            where=where,
            next="return one value a token: [rows, tokens]",
        )


def _check_device(value: Tensor, mask: Tensor, where: str, what: str) -> None:
    if value.device != mask.device:
        raise PluginError(
            f"{what} is on {value.device}, the batch on {mask.device}",
            where=where,
            next="make new tensors with batch.logprobs.new_zeros(…) or torch.zeros_like(…)",
        )


def _check_finite(value: Tensor, where: str, what: str, mask: Tensor) -> None:
    value = value.detach()
    # one pass where all is well: a sum is finite only if its summands are
    if value.sum().isfinite():
        return
    chosen = value[mask]
    bad = int((~chosen.isfinite()).sum())
    if bad:
        raise PluginError(f"{what} is not finite at {bad} of {chosen.numel()} places", where=where)


def _call(function: Callable[..., Any], *args: Any, where: str) -> Any:
    try:
        return function(*args)
    except MintactError as error:
        raise PluginError(error.what, where=where, next=error.next) from error
    except Exception as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(line, where=where) from error


def _shape(value: Any) -> str:
    return str(list(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"
