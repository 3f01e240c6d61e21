"""Plugin module: SGLang's servers and router as a rollout engine."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_rollout_engines() -> Targets:
    """Workers behind a router, launched here or attached to."""
    return {"sglang": "mintact_plugin_sglang.engine:SGLangEngine"}
