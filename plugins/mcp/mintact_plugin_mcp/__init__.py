"""Plugin module: servers of the Model Context Protocol as tools of an environment."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_environments() -> Targets:
    """The tools of one or several servers."""
    return {"mcp/tools": "mintact_plugin_mcp.environment:McpTools"}


@hookimpl
def register_task_sets() -> Targets:
    """Tasks from a file."""
    return {"mcp/tasks": "mintact_plugin_mcp.tasks:from_file"}
