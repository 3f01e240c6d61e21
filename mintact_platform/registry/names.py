"""From a name in a run file to the thing itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import pluggy

from mintact_platform.errors import PluginConflict, PluginError, PluginNotFound
from mintact_platform.hookspecs import Targets
from mintact_platform.registry.families import ANY, hint, key_of
from mintact_platform.registry.loader import HOOKS, PluginRow, load
from mintact_platform.registry.source import Source

KINDS = tuple(sorted(h.removeprefix("register_") for h in HOOKS if h.startswith("register_")))


class Registry:
    """What the installed plugins register, by kind and name.

    Args:
        manager: a loaded plugin manager.
        rows: one row a plugin; errors found later are written on them.

    Example:
        >>> Registry.discover().get("judges", "state")  # doctest: +SKIP
    """

    def __init__(self, manager: pluggy.PluginManager, rows: list[PluginRow]) -> None:
        self.manager = manager
        self.rows = rows

    @classmethod
    def discover(cls, environ: Mapping[str, str] = os.environ) -> Registry:
        """Load all installed plugins."""
        return cls(*load(environ))

    @cached_property
    def tables(self) -> dict[str, dict[str, dict[str, str | Callable[..., Any]]]]:
        """`{kind: {name: {distribution: target}}}`; a failing registration is a row error."""
        tables: dict[str, dict[str, dict[str, str | Callable[..., Any]]]] = {k: {} for k in KINDS}
        for row in self.rows:
            provides = []
            for kind in KINDS:
                for name, target in self._targets(kind, row).items():
                    tables[kind].setdefault(name, {})[row.distribution] = target
                    provides.append(f"{kind}:{name}")
            row.provides = tuple(provides)
        return tables

    def names(self, kind: str) -> tuple[str, ...]:
        """Registered names of a kind, sorted."""
        return tuple(sorted(self.tables[kind]))

    def knows(self, kind: str, name: str) -> bool:
        """Whether a plugin registers the name, or a family that it belongs to."""
        return key_of(name, self.tables[kind]) in self.tables[kind]

    def provider(self, kind: str, name: str) -> str:
        """The distribution that registers the name."""
        return next(iter(self._one(kind, name)))

    def get(self, kind: str, name: str) -> Any:
        """The one target of that name, imported if it was registered lazily.

        A name with a colon, `my_module:my_judge`, is imported as it is: for one's own file before
        it becomes a plugin. The module must be importable in every process (`PYTHONPATH`).

        A name that ends in `/*` is a family: it stands for every name that begins so and is not
        registered itself, and its target gets the rest as the keyword `id`, see `Member`.

        Raises:
            PluginNotFound: with near matches and the plugins that failed to load.
            PluginConflict: naming both distributions.
            PluginError: when the target cannot be imported.
        """
        return self.source(kind, name).load()

    def source(self, kind: str, name: str) -> Source:
        """Where the target of that name is imported from.

        Raises:
            PluginNotFound: with near matches and the plugins that failed to load.
            PluginConflict: naming both distributions.
        """
        ((distribution, target),) = self._one(kind, name).items()
        key = key_of(name, self.tables[kind])
        member = None if key == name or not key.endswith(ANY) else name[len(key) - 1 :]
        return Source(target, member, f"{_singular(kind)} {name!r} of {distribution}")

    def versions(self) -> dict[str, str]:
        """`{distribution: version}` of the plugins that loaded."""
        return {row.distribution: row.version for row in self.rows if row.error is None}

    def _one(self, kind: str, name: str) -> dict[str, str | Callable[..., Any]]:
        table = self.tables[kind]
        asked, name = name, key_of(name, table)
        if ":" in name and name not in table:
            return {name.partition(":")[0]: name}
        if name not in table:
            broken = "; ".join(
                f"{row.distribution} failed to load ({row.error})" for row in self.rows if row.error
            )
            raise PluginNotFound(
                f"no {_singular(kind)} named {asked!r}",
                next="; ".join(filter(None, (hint(asked, table), broken))),
            )
        if len(table[name]) > 1:
            raise PluginConflict(
                f"{_singular(kind)} {name!r} comes from {' and '.join(sorted(table[name]))}",
                next="disable one with MINTACT_DISABLE_PLUGINS",
            )
        return table[name]

    def _targets(self, kind: str, row: PluginRow) -> Targets:
        plugin = self.manager.get_plugin(row.distribution)
        hook = getattr(plugin, f"register_{kind}", None)
        if plugin is None or hook is None or row.error:
            return {}
        try:
            targets = hook()
            if not isinstance(targets, Mapping):
                raise TypeError(f"register_{kind} must return a mapping, got {targets!r}")
            return targets
        except Exception as error:
            row.error = f"register_{kind}: {type(error).__name__}: {error}".splitlines()[0]
            if os.environ.get("MINTACT_STRICT_PLUGINS"):
                raise PluginError(row.error, where=f"plugin {row.distribution}") from error
            return {}


def _singular(kind: str) -> str:
    return kind.replace("_", " ").removesuffix("s")
