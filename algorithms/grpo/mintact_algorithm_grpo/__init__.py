"""Group-relative policy optimisation and its relatives: advantages, objectives, corrections."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets

_HERE = "mintact_algorithm_grpo"


@hookimpl
def register_advantages() -> Targets:
    """Group baselines."""
    return {"mintact": f"{_HERE}.advantages:mintact", "grpo": f"{_HERE}.advantages:grpo"}


@hookimpl
def register_objectives() -> Targets:
    """Per-token surrogates."""
    return {
        "mintact": f"{_HERE}.objectives:mintact",
        "ppo_clip": f"{_HERE}.objectives:ppo_clip",
        "sft": f"{_HERE}.objectives:sft",
    }


@hookimpl
def register_corrections() -> Targets:
    """Importance weights against the rollout policy."""
    return {"none": f"{_HERE}.corrections:none", "truncate": f"{_HERE}.corrections:truncate"}


@hookimpl
def register_presets() -> Targets:
    """Combinations by name."""
    return {"mintact": f"{_HERE}.presets:MINTACT", "grpo": f"{_HERE}.presets:GRPO"}
