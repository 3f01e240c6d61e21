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


@dataclass(frozen=True, eq=False)
class Loss:
    """A micro-batch's share of the loss.

    Attributes:
        value: scalar with a gradient, Σ m·sg(w)·surrogate / S.
        tokens: per-token metrics `[n]` of the n supervised tokens, detached.
        domain: `[n]` domain name index of each token.
        domains: names.
    """

    value: Tensor
    tokens: Mapping[str, Tensor]
    domain: Tensor
    domains: tuple[str, ...]


def evaluate_advantages(parts: LossParts, batch: RewardBatch) -> Tensor:
    """Â, float64 `[rows]` or `[rows, tokens]`, 0 for masked rollouts.

    Raises:
        PluginError: wrong shape or a value that is not finite, naming the advantage.
    """
    where = f"advantage {parts.names.get('advantage', '?')!r}"
    result = _call(parts.advantage, batch, where=where)
    rows = len(batch.rewards)
    if not isinstance(result, Tensor) or result.dim() not in (1, 2) or len(result) != rows:
        raise PluginError(
            f"returned {_shape(result)} for {rows} rows",
            where=where,
            next="return [rows] or [rows, tokens]",
        )
    live = batch.live if result.dim() == 1 else batch.live[:, None]
    masked = result.masked_fill(~live, 0.0).double()
    _check_finite(masked, where, "advantages")
    return masked


def evaluate_normaliser(parts: LossParts, batch: RewardBatch) -> float:
    """S of an update.

    Raises:
        PluginError: when it is not a positive finite number.
    """
    where = f"normaliser {parts.names.get('normaliser', '?')!r}"
    value = float(_call(parts.normaliser, batch, where=where))
    if not 0 < value < float("inf"):
        raise PluginError(f"returned {value!r}", where=where, next="S is a positive number")
    return value


def evaluate_loss(
    parts: LossParts,
    batch: LossBatch,
    S: float,
    observed: Mapping[str, Tensor] = _NOTHING,
) -> Loss:
    """L = (1/S) Σ m · sg(w) · surrogate, with its per-token metrics.

    What stands outside the mask is set to 0 before any plugin sees it, so that it can neither
    add to the loss nor spoil a gradient.

    Args:
        parts: the four functions.
        batch: rows of a micro-batch.
        S: normaliser of the whole update.
        observed: `[rows, tokens]` tensors to report besides, e.g. the entropy.

    Raises:
        PluginError: a wrong shape, name or value, naming the plugin and the field.
    """
    batch = _masked(batch)
    mask = batch.loss_mask
    name = f"objective {parts.names.get('objective', '?')!r}"
    result = _call(parts.objective, batch, where=name)
    surrogate, reported = result if isinstance(result, tuple) else (result, {})
    _check(surrogate, mask, name, "surrogate")
    corrected = f"correction {parts.names.get('correction', '?')!r}"
    weight = _call(
        parts.correction, batch.proximal_logprobs, batch.rollout_logprobs, mask, where=corrected
    )
    _check(weight, mask, corrected, "weight")
    weight = weight.detach()
    value = (surrogate * weight).masked_fill(~mask, 0.0).sum() / S
    tokens = {key: _metric(tensor, mask, name, key) for key, tensor in reported.items()}
    tokens |= _core_metrics(batch, weight)
    tokens |= {key: _metric(tensor, mask, "trainer", key) for key, tensor in observed.items()}
    domain = batch.domain[:, None].expand(mask.shape)[mask]
    return Loss(value, tokens, domain, batch.domains)


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
    mask = batch.loss_mask
    raw = (batch.proximal_logprobs - batch.rollout_logprobs).detach()[mask].exp()
    ratio = (batch.logprobs - batch.proximal_logprobs).detach()[mask].exp()
    gap = (batch.proximal_logprobs - batch.rollout_logprobs).detach()[mask].abs()
    used = weight[mask]
    tokens = {
        "ratio": ratio,
        "ratio_max": ratio,
        "importance_weight": used,
        "importance_weight_max": used,
        "importance_weight_truncated": (raw > used * (1 + 1e-6)).to(raw.dtype),
        "rollout_gap": gap,
        "rollout_gap_max": gap,
        "surprise": -batch.logprobs.detach()[mask],
    }
    if batch.versions is not None:
        tokens["engine_gap"] = gap.masked_fill((batch.versions != batch.deployed)[mask], torch.nan)
    return tokens


def _masked(batch: LossBatch) -> LossBatch:
    empty = ~batch.loss_mask
    names = ("logprobs", "proximal_logprobs", "rollout_logprobs", "advantages")
    tensors = {}
    for name in names:
        tensor = getattr(batch, name)
        if tensor.shape != empty.shape:
            raise PluginError(
                f"{name} is {list(tensor.shape)}, loss_mask {list(empty.shape)}", where="loss batch"
            )
        tensors[name] = tensor.masked_fill(empty, 0.0)
    extras = {name: tensor.masked_fill(empty, 0.0) for name, tensor in batch.extras.items()}
    return replace(batch, **tensors, extras=extras)


def _check(value: Any, mask: Tensor, where: str, what: str) -> None:
    if not isinstance(value, Tensor) or value.shape != mask.shape:
        raise PluginError(
            f"{what} is {_shape(value)} for a batch of {list(mask.shape)}",
            where=where,
            next="return one value a token: [rows, tokens]",
        )
    _check_finite(value[mask], where, what)


def _check_finite(value: Tensor, where: str, what: str) -> None:
    bad = int((~value.detach().isfinite()).sum())
    if bad:
        raise PluginError(f"{what} is not finite at {bad} of {value.numel()} places", where=where)


def _metric(value: Any, mask: Tensor, where: str, name: str) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != mask.shape:
        raise PluginError(
            f"metric {name!r} is {_shape(value)} for a batch of {list(mask.shape)}", where=where
        )
    return value.detach()[mask].float()


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
