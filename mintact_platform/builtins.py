"""What the core itself ships, registered like any plugin through the core's own entry point."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_environments() -> Targets:
    """Every environment that gymnasium registers, as `gym/<id>`."""
    return {"gym/*": "mintact_platform.environments.gym:GymEnvironment"}


@hookimpl
def register_task_sets() -> Targets:
    """Seeds of every environment that gymnasium registers."""
    return {"gym/*": "mintact_platform.environments.gym:tasks"}


@hookimpl
def register_action_spaces() -> Targets:
    """The four domains' action spaces."""
    ui = "mintact_platform.actions.ui"
    return {
        "mobile_use": f"{ui}:MobileUse",
        "computer_use": f"{ui}:ComputerUse",
        "browser_use": f"{ui}:BrowserUse",
        "tool_use": f"{ui}:ToolUse",
    }


@hookimpl
def register_chat_formats() -> Targets:
    """Append-only chat formats."""
    families = "mintact_platform.models.chat_families"
    return {
        "qwen3-vl": "mintact_platform.models.chat:Qwen3VLChat",
        "qwen3": f"{families}:Qwen3Chat",
        "qwen2.5-vl": f"{families}:Qwen25VLChat",
        "smolvlm": f"{families}:SmolVLMChat",
    }


@hookimpl
def register_demonstrations() -> Targets:
    """Supervised episodes."""
    return {
        "episodes": "mintact_platform.datasets.saved:episodes",
        "rollouts": "mintact_platform.datasets.rollouts:rollouts",
    }


@hookimpl
def register_mixtures() -> Targets:
    """Per-step domain quotas."""
    return {
        "fixed": "mintact_platform.scheduler.quota:FixedMixture",
        "adaptive": "mintact_platform.scheduler.adaptive:AdaptiveMixture",
    }


@hookimpl
def register_flow_controls() -> Targets:
    """Pause decisions for producers."""
    flow = "mintact_platform.scheduler.flow"
    return {
        "quota_normalised": f"{flow}:QuotaNormalised",
        "credit": f"{flow}:Credit",
        "admitted": f"{flow}:Admitted",
        "none": f"{flow}:NoFlowControl",
    }


@hookimpl
def register_normalisers() -> Targets:
    """What the sum of an update is divided by."""
    return {"fixed": "mintact_platform.training.objective:fixed_normaliser"}


@hookimpl(trylast=True)
def admit_group(domain: str, rewards: tuple[float, ...]) -> bool:
    """Refuse groups whose live rewards are all equal: their advantages vanish (DAPO)."""
    return len(set(rewards)) > 1
