"""Discovery: from entry points to a pluggy manager, where a broken plugin is a row, not a crash."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pluggy
from importlib_metadata import EntryPoint, entry_points, version
from packaging.requirements import Requirement

from mintact_platform import hookspecs
from mintact_platform.errors import PluginError

GROUP = "mintact"
HOOKS = frozenset(n for n, v in vars(hookspecs).items() if hasattr(v, f"{GROUP}_spec"))
CORE = "mintact-platform"


@dataclass
class PluginRow:
    """One entry point: what it is, how long it took to import, what went wrong.

    Attributes:
        distribution: name of the distribution that brings it.
        version: the distribution's version.
        entry_point: the entry point's name.
        hooks: hooks it implements.
        milliseconds: import time.
        error: one line, None when it works.
    """

    distribution: str
    version: str
    entry_point: str
    hooks: tuple[str, ...] = ()
    milliseconds: float = 0.0
    error: str | None = None
    provides: tuple[str, ...] = field(default=())


def load(environ: Mapping[str, str] = os.environ) -> tuple[pluggy.PluginManager, list[PluginRow]]:
    """Load every installed plugin in the order of distribution names.

    Args:
        environ: reads `MINTACT_DISABLE_PLUGINS`, `MINTACT_PLUGINS` (comma-separated distribution
            names: leave out, or only these) and `MINTACT_STRICT_PLUGINS` (a failure raises).

    Raises:
        PluginError: in strict mode, naming the plugin that failed.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    blocked, allowed = (
        _names(environ, "MINTACT_DISABLE_PLUGINS"),
        _names(environ, "MINTACT_PLUGINS"),
    )
    rows: list[PluginRow] = []
    for point in sorted(entry_points(group=GROUP), key=lambda e: (_distribution(e), e.name)):
        name = _distribution(point)
        if name in blocked or (allowed and name != CORE and name not in allowed):
            continue
        if any(row.distribution == name and row.entry_point == point.name for row in rows):
            continue  # an editable install may list its entry point twice on sys.path
        rows.append(_load_one(manager, point, strict=bool(environ.get("MINTACT_STRICT_PLUGINS"))))
    return manager, rows


def _load_one(manager: pluggy.PluginManager, point: EntryPoint, *, strict: bool) -> PluginRow:
    name = _distribution(point)
    row = PluginRow(name, point.dist.version if point.dist else "?", point.name)
    start = time.perf_counter()
    if manager.has_plugin(name):
        row.error = "a second entry point in the group 'mintact'; one module a distribution"
        if strict:
            raise PluginError(row.error, where=f"plugin {name}")
        return row
    try:
        _check_core_version(point)
        plugin = point.load()
        _check_hook_names(plugin)
        manager.register(plugin, name=name)
        manager.check_pending()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if manager.has_plugin(name):
            manager.unregister(name=name)
        row.error = _one_line(error)
        if strict:
            raise PluginError(f"failed to load: {row.error}", where=f"plugin {name}") from error
    else:
        row.hooks = tuple(sorted(h.name for h in manager.get_hookcallers(plugin) or ()))
    row.milliseconds = (time.perf_counter() - start) * 1000
    return row


def _check_core_version(point: EntryPoint) -> None:
    core = version(CORE)
    for text in (point.dist.requires if point.dist else None) or ():
        need = Requirement(text)
        if need.name == CORE and not need.specifier.contains(core, prereleases=True):
            raise PluginError(f"needs {CORE}{need.specifier}, but {core} is installed")


def _check_hook_names(plugin: Any) -> None:
    for name, value in vars(plugin).items():
        if hasattr(value, f"{GROUP}_impl") and name not in HOOKS:
            hint = difflib.get_close_matches(name, HOOKS, n=1)
            raise PluginError(
                f"unknown hook {name!r}", next=f"did you mean {hint[0]!r}?" if hint else ""
            )


def _one_line(error: BaseException) -> str:
    # pluggy names the wrong argument on the last of its lines
    lines = [line for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
    return "; ".join(lines if isinstance(error, pluggy.PluginValidationError) else lines[:1])


def _names(environ: Mapping[str, str], variable: str) -> set[str]:
    return {name.strip() for name in environ.get(variable, "").split(",") if name.strip()}


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.name
