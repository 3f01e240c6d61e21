"""Plugin module: OpenEnv servers as environments of ours."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_environments() -> Targets:
    """A session of a running OpenEnv server."""
    return {"openenv/ws": "mintact_plugin_openenv.environment:OpenEnv"}


@hookimpl
def register_task_sets() -> Targets:
    """Seeds of an OpenEnv server."""
    return {"openenv/seeds": "mintact_plugin_openenv.tasks:seeds"}
