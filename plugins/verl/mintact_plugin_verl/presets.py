"""A preset as arguments of verl's command line, or why verl cannot carry it.

verl divides and corrects by itself, in ways of its own that are named in its configuration; here
those of ours that equal one of verl's are translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
from mintact_platform.training.objective import Preset
from mintact_plugin_verl.representable import refusal, verl_name

CONFIG = "mintact_plugin_verl.config.PolicyLossConfig"
"""verl's own section of a policy loss, with room for an objective's parameters."""

_ACTOR = "actor_rollout_ref.actor"
_CORRECTION = "algorithm.rollout_correction"
_REDUCTIONS = {
    "token_mean": "token-mean",
    "seq_mean_token_mean": "seq-mean-token-mean",
    "seq_mean_token_sum": "seq-mean-token-sum",
}
"""verl's names for our normalisers; `fixed` has a constant besides."""
_KAPPA = 20.0
"""The guard of verl's own correction; another one cannot be asked for."""


def overrides(registry: Registry, name: str, *, length_cap: int | None = None) -> list[str]:
    """A preset as arguments of verl's command line.

    Args:
        registry: where the preset and its parts are found.
        name: of the preset.
        length_cap: L_cap, for presets with the constant S = rollouts of the update × L_cap.

    Raises:
        PluginNotFound: no such preset or part.
        ConfigurationError: a part that verl cannot carry, and why; no length cap where one is
            needed.
    """
    preset: Preset = registry.get("presets", name)
    where = f"preset {name!r} in verl"
    refused = refusal(preset.objective, registry.get("objectives", preset.objective))
    if refused is not None:
        raise refused
    if preset.terms:
        raise ConfigurationError(
            f"verl adds terms of its own only, not {', '.join(map(repr, preset.terms))}",
            where=where,
            next=f"see {_ACTOR}.entropy_coeff and {_ACTOR}.use_kl_loss",
        )
    registry.get("advantages", preset.advantage)
    loss = f"{_ACTOR}.policy_loss"
    return [
        f"algorithm.adv_estimator={verl_name(preset.advantage)}",
        *_params("+algorithm.mintact", preset.params.get("advantage", {})),
        f"{loss}._target_={CONFIG}",
        f"{loss}.loss_mode={verl_name(preset.objective)}",
        *_params(f"+{loss}.mintact", preset.params.get("objective", {})),
        *_normaliser(registry, preset, length_cap, where),
        *_correction(registry, preset, where),
    ]


def _normaliser(registry: Registry, preset: Preset, cap: int | None, where: str) -> list[str]:
    if preset.normaliser == "fixed":
        if cap is None:
            raise ConfigurationError(
                "it divides by a constant, rollouts of an update × L_cap",
                where=where,
                next="give --length-cap TOKENS",
            )
        mode = f"{_ACTOR}.loss_agg_mode=seq-mean-token-sum-norm"
        return [mode, f"{_ACTOR}.loss_scale_factor={cap}"]
    values = _checked(registry, preset, "normaliser", where)
    planned = values.pop("count", "planned") == "planned"
    if preset.normaliser not in _REDUCTIONS or not planned or values:
        raise ConfigurationError(
            f"verl divides by what it counts itself, which is not {preset.normaliser!r}"
            + ("" if planned else " over live rollouts"),
            where=where,
            next=f"choose {_ACTOR}.loss_agg_mode, or train with mintact",
        )
    return [f"{_ACTOR}.loss_agg_mode={_REDUCTIONS[preset.normaliser]}"]


def _correction(registry: Registry, preset: Preset, where: str) -> list[str]:
    values = _checked(registry, preset, "correction", where)
    kappa = values.pop("kappa", _KAPPA)
    level, bounds = "", ""
    match preset.correction, values:
        case "none", _:
            return [f"{_CORRECTION}.rollout_is=null"]
        case "truncate", {"cap": cap, "level": "token" | "sequence" as level}:
            bounds = f"{cap}"
        case "truncate_sequence", {"cap": cap}:
            level, bounds = "sequence", f"{cap}"
        case "mask", {"low": low, "high": high, "level": "token" | "sequence" as level}:
            bounds = f"'{low}_{high}'"
        case "mask_sequence", {"low": low, "high": high}:
            level, bounds = "sequence", f"'{low}_{high}'"
    if not bounds or kappa != _KAPPA:
        raise ConfigurationError(
            f"verl has no correction like {preset.correction!r} with {values}, kappa {kappa:g}",
            where=where,
            next=f"it truncates or masks by token or sequence, with kappa {_KAPPA:g}",
        )
    return [f"{_CORRECTION}.rollout_is={level}", f"{_CORRECTION}.rollout_is_threshold={bounds}"]


def _checked(registry: Registry, preset: Preset, part: str, where: str) -> dict[str, Any]:
    """A part's parameters, defaults filled in."""
    target = registry.get(f"{part}s", getattr(preset, part))
    return check(target, preset.params.get(part, {}), where=where)


def _params(section: str, params: Mapping[str, Any]) -> list[str]:
    return [f"{section}.{key}={value}" for key, value in params.items()]
