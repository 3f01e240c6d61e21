"""Websites in a real Chromium: generated ones, recorded ones replayed offline, and live ones."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_environments() -> Targets:
    """One environment a source of pages."""
    return {
        "web/synth": "mintact_env_web.synth.environment:Synth",
        "web/sites": "mintact_env_web.agentic.environment:Sites",
        "web/cache": "mintact_env_web.cache.environment:Cache",
        "web/record": "mintact_env_web.cache.record:Record",
        "web/live": "mintact_env_web.live:Live",
    }


@hookimpl
def register_task_sets() -> Targets:
    """Tasks with checks of the final state."""
    return {
        "web/synth": "mintact_env_web.synth.tasks:synth",
        "web/sites": "mintact_env_web.agentic.tasks:sites",
        "web/cache": "mintact_env_web.cache.tasks:cache",
    }


@hookimpl
def register_action_spaces() -> Targets:
    """`browser_use` with drag, tabs, uploads and option lists."""
    return {"browser_use_extended": "mintact_env_web.actions:BrowserUseExtended"}


@hookimpl
def register_commands() -> Targets:
    """`mintact web record`, `mintact web validate` and others."""
    return {"web": "mintact_env_web.cli:web"}
