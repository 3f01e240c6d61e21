"""Four tiny visual domains, on which a randomly initialised model learns within minutes."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_environments() -> Targets:
    """One environment a domain."""
    return {
        "micro/mobile": "mintact_env_micro.environment:Mobile",
        "micro/desktop": "mintact_env_micro.environment:Desktop",
        "micro/web": "mintact_env_micro.web_environment:Web",
        "micro/tools": "mintact_env_micro.environment:Tools",
    }


@hookimpl
def register_task_sets() -> Targets:
    """The task sets of the four environments."""
    return {
        "micro/mobile": "mintact_env_micro.tasks:mobile",
        "micro/desktop": "mintact_env_micro.tasks:desktop",
        "micro/web": "mintact_env_micro.tasks:web",
        "micro/tools": "mintact_env_micro.tasks:tools",
    }


@hookimpl
def register_demonstrations() -> Targets:
    """Supervised data of the four domains."""
    return {
        "micro/episodes": "mintact_env_micro.demonstrations:episodes",
        "micro/grounding": "mintact_env_micro.demonstrations:grounding",
        "micro/elements": "mintact_env_micro.demonstrations:elements",
    }
