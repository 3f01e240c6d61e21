"""From a name in a run file to the thing itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import pluggy

from mintact_platform.errors import PluginConflict, PluginNotFound
from mintact_platform.registry import requirements
from mintact_platform.registry.families import ANY, hint, key_of
from mintact_platform.registry.hooks import KINDS as KINDS
from mintact_platform.registry.loader import PluginRow, load
from mintact_platform.registry.source import Source

Table: TypeAlias = dict[str, dict[str, str | Callable[..., Any]]]
"""`{name: {distribution: target}}`"""


class Registry:
    """What the installed plugins register, by kind and name.

    Args:
        manager: a loaded plugin manager.
        rows: one row a plugin; errors found later are written on them.
        left_out: rows of plugins that an environment variable leaves out.
        warnings: what discovery has to say besides.

    Example:
        >>> Registry.discover().get("judges", "state")  # doctest: +SKIP
    """

    def __init__(
        self,
        manager: pluggy.PluginManager,
        rows: list[PluginRow],
        left_out: Sequence[PluginRow] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.manager = manager
        self.rows = rows
        self.left_out = tuple(left_out)
        self.warnings = tuple(warnings)

    @classmethod
    def discover(cls, environ: Mapping[str, str] = os.environ) -> Registry:
        """Load all installed plugins.

        Raises:
            PluginError: in strict mode, naming the plugin that failed.
        """
        return cls(*load(environ))

    @cached_property
    def tables(self) -> dict[str, Table]:
        """`{kind: {name: {distribution: target}}}`."""
        tables: dict[str, Table] = {kind: {} for kind in KINDS}
        for row in self.rows:
            for kind, targets in row.targets.items():
                for name, target in targets.items():
                    tables[kind].setdefault(name, {})[row.distribution] = target
        return tables

    def names(self, kind: str) -> tuple[str, ...]:
        """Registered names of a kind, sorted."""
        return tuple(sorted(self.tables[kind]))

    def knows(self, kind: str, name: str) -> bool:
        """Whether a plugin registers the name, or a family that it belongs to."""
        return key_of(name, self.tables[kind]) in self.tables[kind]

    def provider(self, kind: str, name: str) -> str:
        """The distribution that registers the name.

        Raises:
            PluginNotFound: nobody does.
            PluginConflict: two do.
        """
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
        """`{distribution: version}` of all plugins that are installed and not left out.

        Failed ones are among them: whether two processes have the same plugins does not depend on
        what went wrong with one of them.
        """
        return {row.distribution: row.version for row in self.rows}

    def require(self, needs: Iterable[str], *, where: str = "required_plugins") -> None:
        """Check that plugins are installed in the right versions, and work.

        Args:
            needs: requirements as pip takes them, e.g. `mintact-env-desktop>=0.2`.
            where: who asks, for the error.

        Raises:
            PluginError: one line about everything that is missing, and how to install it.
        """
        requirements.check(needs, self.rows, self.left_out, where=where)

    def require_of(self, kind: str, name: str, needs: Iterable[str], *, where: str) -> None:
        """Check those requirements that are about the distribution which registers a name.

        Raises:
            PluginError: it is installed in another version, or nobody registers the name.
        """
        if needs := list(needs):
            own = requirements.about(self.provider(kind, name), needs)
            requirements.check(own, self.rows, self.left_out, where=where)

    def clashes(self) -> dict[str, tuple[str, ...]]:
        """Names that several distributions register, as `kind:name`; an error when asked for."""
        return {
            f"{kind}:{name}": tuple(sorted(found))
            for kind, table in self.tables.items()
            for name, found in table.items()
            if len(found) > 1
        }

    def _one(self, kind: str, name: str) -> dict[str, str | Callable[..., Any]]:
        table = self.tables[kind]
        asked, name = name, key_of(name, table)
        if ":" in name and name not in table:
            return {name.partition(":")[0]: name}
        if name not in table:
            raise PluginNotFound(
                f"no {_singular(kind)} named {asked!r}",
                next="; ".join(filter(None, (hint(asked, table), *self._missing()))),
            )
        if len(table[name]) > 1:
            raise PluginConflict(
                f"{_singular(kind)} {name!r} comes from {' and '.join(sorted(table[name]))}",
                next="disable one with MINTACT_DISABLE_PLUGINS",
            )
        return table[name]

    def _missing(self) -> Iterable[str]:
        """Plugins that might have registered a name, and why they did not."""
        for row in self.rows:
            if row.error:
                yield f"{row.distribution} failed to load ({row.error})"
        for row in self.left_out:
            yield f"{row.distribution} is {row.state}"
        yield from self.warnings


def _singular(kind: str) -> str:
    return kind.replace("_", " ").removesuffix("s")
