"""Plugin module: OpenAI-compatible chat endpoints as a rollout engine."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_rollout_engines() -> Targets:
    """An endpoint that speaks chat completions: a teacher, or a model to be evaluated."""
    return {"openai": "mintact_plugin_openai.engine:OpenAIEngine"}
