"""Discovery: from entry points to a pluggy manager, where a broken plugin is a row, not a crash."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pluggy
from packaging.utils import canonicalize_name

from mintact_platform import hookspecs
from mintact_platform.errors import PluginError, near_match
from mintact_platform.hookspecs import Targets
from mintact_platform.registry import metadata
from mintact_platform.registry.guard import SECONDS, Airlock, Hung, Outcome, time_limit
from mintact_platform.registry.hooks import CORE, GROUP, HookFunctions, Hooks, collect, hooks_of
from mintact_platform.registry.lines import one_line
from mintact_platform.registry.metadata import Installed
from mintact_platform.registry.suspects import Trail, probe

BLOCK = "MINTACT_DISABLE_PLUGINS"
ALLOW = "MINTACT_PLUGINS"
STRICT = "MINTACT_STRICT_PLUGINS"

_importing: dict[str, threading.Thread] = {}
"""Imports that this process left behind: until they end, to ask again is to wait again."""


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
        provides: `kind:name` of everything it registers.
        state: `loaded`, `failed`, or `left out by` and the variable that says so.
        requires: what the distribution needs, as it says itself.
        targets: what stands behind `provides`, by kind and name.
        trace: the traceback of a failed import.
    """

    distribution: str
    version: str
    entry_point: str
    hooks: tuple[str, ...] = ()
    milliseconds: float = 0.0
    error: str | None = None
    provides: tuple[str, ...] = field(default=())
    state: str = "loaded"
    requires: tuple[str, ...] = ()
    targets: Mapping[str, Targets] = field(default_factory=dict, repr=False)
    trace: str = field(default="", repr=False)


class Loaded(NamedTuple):
    """What discovery found.

    Attributes:
        manager: of the plugins that work.
        rows: one row a plugin, failed ones included.
        left_out: rows of plugins that an environment variable leaves out.
        warnings: one line for each name in such a variable that is not installed.
    """

    manager: pluggy.PluginManager
    rows: list[PluginRow]
    left_out: list[PluginRow]
    warnings: list[str]


def load(environ: Mapping[str, str] = os.environ) -> Loaded:
    """Load every installed plugin in the order of distribution names.

    Args:
        environ: reads `MINTACT_DISABLE_PLUGINS`, `MINTACT_PLUGINS` (comma-separated distribution
            names: leave out, or only these), `MINTACT_STRICT_PLUGINS` (a failure raises) and
            `MINTACT_PLUGIN_SECONDS` (an import may take, 20).

    Raises:
        PluginError: in strict mode, naming the plugin that failed.
        ConfigurationError: a number of seconds that is none.
    """
    installed = metadata.plugins(GROUP)
    loader = _Loader(installed, strict=bool(environ.get(STRICT)))
    left_out = []
    with Trail() as trail:
        airlock = Airlock(time_limit(environ))
        for plugin in installed:
            reason = _reason_to_leave_out(plugin.distribution, environ)
            if reason:
                left_out.append(_row(plugin, state=f"left out by {reason}"))
            else:
                loader.add(plugin, trail, airlock.seconds)
        loader.run(airlock)
    names = [plugin.distribution for plugin in installed]
    unknown = list(_unknown_names(environ, names))
    return Loaded(loader.manager, loader.rows, left_out, unknown)


class _Imported(NamedTuple):
    """What a plugin's code came to: its hooks, what they register, what failed."""

    hooks: Hooks
    targets: dict[str, Targets]
    problem: str | None


class _Import:
    """The part of loading a plugin that runs its code."""

    def __init__(self, plugin: Installed, trail: Trail) -> None:
        self.what = "import"
        self.package = plugin.point.module.partition(".")[0]
        self.seconds = 0.0
        self._plugin, self._trail = plugin, trail

    def __call__(self) -> _Imported:
        start = time.perf_counter()
        self._trail.enter(self._plugin.distribution)
        try:
            hooks = hooks_of(self._plugin.point.load())
            self.what = "registration"
            return _Imported(hooks, *collect(hooks))
        finally:
            self.seconds = time.perf_counter() - start


class _Loader:
    """Loads plugins: each is looked at, then all are imported, then each is registered.

    Args:
        installed: all plugins.
        strict: a failure raises.

    Attributes:
        manager: holds those that work.
        rows: of those that were added.
    """

    def __init__(self, installed: Sequence[Installed], *, strict: bool) -> None:
        self.manager = pluggy.PluginManager(GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.rows: list[PluginRow] = []
        self._strict = strict
        self._versions = {str(canonicalize_name(p.distribution)): p.version for p in installed}
        self._imports: list[tuple[PluginRow, _Import]] = []

    def add(self, plugin: Installed, trail: Trail, seconds: float) -> None:
        """Look at a plugin before any of its code runs.

        Raises:
            PluginError: in strict mode, when it cannot be loaded.
        """
        row = _row(plugin)
        self.rows.append(row)
        try:
            self._check(plugin, trail, seconds)
        except Exception as error:
            self._fail(row, error)
        else:
            self._imports.append((row, _Import(plugin, trail)))

    def run(self, airlock: Airlock) -> None:
        """Import and register what was added.

        Raises:
            PluginError: in strict mode, when one failed.
        """
        outcomes = airlock.run([piece for _, piece in self._imports])
        for (row, piece), outcome in zip(self._imports, outcomes, strict=True):
            row.milliseconds = 1000 * piece.seconds
            try:
                self._register(row, outcome)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and error is not outcome.error:
                    raise
                self._fail(row, error)

    def _check(self, plugin: Installed, trail: Trail, seconds: float) -> None:
        name = plugin.distribution
        if any(row.distribution == name for row in self.rows[:-1]):
            raise PluginError("a second entry point in the group 'mintact'; one a distribution")
        earlier = _importing.get(name)
        if earlier is not None and earlier.is_alive():
            raise PluginError(
                "its import began earlier and did not end", next=f"leave it out with {BLOCK}={name}"
            )
        metadata.check_requirements(plugin, self._versions)
        if trail.is_suspect(name):
            probe(plugin.point.module, seconds)
            trail.forgive(name)

    def _register(self, row: PluginRow, outcome: Outcome[_Imported]) -> None:
        if isinstance(outcome.error, Hung):
            _importing[row.distribution] = outcome.error.thread
            raise PluginError(
                f"{outcome.error} ({SECONDS})", next=f"leave it out with {BLOCK}={row.distribution}"
            )
        if outcome.error is not None:
            raise outcome.error
        imported = outcome.result
        assert imported is not None
        try:
            self.manager.register(HookFunctions(imported.hooks), name=row.distribution)
            self.manager.check_pending()
        except Exception:
            if self.manager.has_plugin(row.distribution):
                self.manager.unregister(name=row.distribution)
            raise
        row.hooks, row.targets = tuple(sorted(imported.hooks)), imported.targets
        row.provides = tuple(f"{k}:{n}" for k, names in row.targets.items() for n in names)
        if imported.problem is not None:
            row.error = imported.problem
            self._complain(row)

    def _fail(self, row: PluginRow, error: BaseException) -> None:
        row.error, row.state = one_line(error), "failed"
        row.trace = "".join(traceback.format_exception(error))
        self._complain(row)

    def _complain(self, row: PluginRow) -> None:
        if self._strict:
            raise PluginError(f"failed to load: {row.error}", where=f"plugin {row.distribution}")


def _row(plugin: Installed, state: str = "loaded") -> PluginRow:
    row = PluginRow(plugin.distribution, plugin.version, plugin.point.name, state=state)
    row.requires = plugin.requires
    return row


def _reason_to_leave_out(distribution: str, environ: Mapping[str, str]) -> str:
    """The variable that leaves it out, "" when none does; the core always stays."""
    name, allowed = canonicalize_name(distribution), _names(environ, ALLOW)
    if name == CORE:
        return ""
    if name in _names(environ, BLOCK):
        return BLOCK
    return ALLOW if allowed and name not in allowed else ""


def _unknown_names(environ: Mapping[str, str], installed: Sequence[str]) -> Iterator[str]:
    known = {canonicalize_name(name) for name in installed}
    for variable in (BLOCK, ALLOW):
        for name in sorted(_names(environ, variable) - known):
            yield f"{variable} names {name!r}, which is not installed; {near_match(name, known)}"


def _names(environ: Mapping[str, str], variable: str) -> set[str]:
    words = environ.get(variable, "").split(",")
    return {str(canonicalize_name(word.strip())) for word in words if word.strip()}
