"""Group-relative policy optimisation and its relatives: advantages, objectives, corrections."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets

_HERE = "mintact_algorithm_grpo"


@hookimpl
def register_advantages() -> Targets:
    """What each token is worth."""
    files = {
        "group": ("reward", "mintact", "grpo", "rloo", "opo", "maxrl", "dapo"),
        "batch": ("reinforce_pp", "reinforce_pp_baseline", "task_normalised", "gpg", "prpo"),
        "selection": ("gdpo", "pass_at_k", "grpo_passk", "rejection"),
        "turns": ("turn_weighted", "turn_level"),
    }
    return {**_targets("advantages", files), "dr_grpo": f"{_HERE}.advantages.group:mintact"}


@hookimpl
def register_objectives() -> Targets:
    """Per-token surrogates, and the terms that may be added to them."""
    files = {
        "clip": ("mintact", "ppo_clip", "clip_higher", "dual_clip", "decoupled_ppo"),
        "sequence": ("gspo", "gspo_sequence", "gmpo", "opsm"),
        "cispo": ("cispo", "cispo_bound"),
        "sapo": ("sapo",),
        "off_policy": ("topr", "dppo_tv", "dro", "kimi"),
        "covariance": ("clip_cov", "kl_cov"),
        "likelihood": ("reinforce", "sft"),
        "penalties": ("kl_k1", "kl_k2", "kl_k3", "entropy_bonus"),
    }
    return _targets("objectives", files)


@hookimpl
def register_corrections() -> Targets:
    """Importance weights against the rollout policy."""
    names = ("none", "truncate", "truncate_sequence", "mask", "mask_sequence", "mask_geometric")
    return {name: f"{_HERE}.corrections:{name}" for name in names}


@hookimpl
def register_normalisers() -> Targets:
    """Divisors besides the core's constant one."""
    names = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum")
    return {name: f"{_HERE}.normalisers:{name}" for name in names}


@hookimpl
def register_presets() -> Targets:
    """Combinations by name."""
    names = (
        "mintact",
        "grpo",
        "dr_grpo",
        "dapo",
        "gspo",
        "gmpo",
        "cispo",
        "sapo",
        "rloo",
        "opo",
        "reinforce_pp",
        "reinforce_pp_baseline",
        "decoupled_ppo",
        "raft",
        "rft",
    )
    return {name: f"{_HERE}.presets:{name.upper()}" for name in names}


def _targets(room: str, files: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {
        name: f"{_HERE}.{room}.{file}:{name}" for file, names in files.items() for name in names
    }
