"""What a server may lease: names resolved, parameters checked, interpreters allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mintact_platform.environments.encoding import plain
from mintact_platform.environments.hosting import Kind
from mintact_platform.environments.worker import check_requirements, describe
from mintact_platform.errors import ConfigurationError, PluginError, near_match
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check


class Resolved(NamedTuple):
    """An environment that can be placed.

    Attributes:
        kind: for the choice of a worker.
        seats: instances a worker may host, None when only the worker can say.
        params: checked, JSON values.
    """

    kind: Kind
    seats: int | None
    params: dict[str, Any]


class Catalogue:
    """The environments of a server.

    Args:
        registry: installed plugins.
        allowed: names that may be leased; None allows every name, `module:attribute` included.
        pythons: further interpreters in which workers may run. An environment there is not
            imported here, so that its pins may clash with the server's; its parameters are
            checked by its own constructor only.
    """

    def __init__(
        self, registry: Registry, allowed: Sequence[str] | None = None, pythons: Sequence[str] = ()
    ) -> None:
        self._registry = registry
        self._allowed = None if allowed is None else tuple(allowed)
        self._pythons = tuple(pythons)
        self._targets: dict[str, Any] = {}

    def names(self) -> tuple[str, ...]:
        """Names that can be asked for."""
        return self._registry.names("environments") if self._allowed is None else self._allowed

    def described(self, name: str) -> dict[str, Any]:
        """The `mintact` metadata, {} while the environment was not imported here."""
        return describe(self._targets[name]) if name in self._targets else {}

    async def resolve(self, name: str, params: Mapping[str, Any], python: str | None) -> Resolved:
        """Check a request for an instance.

        Raises:
            ConfigurationError: unknown or forbidden name, wrong parameter, missing program.
        """
        if self._allowed is not None and name not in self._allowed:
            raise ConfigurationError(
                f"environment {name!r} is not served here", next=near_match(name, self._allowed)
            )
        if python is not None and python != sys.executable:
            if python not in self._pythons:
                raise ConfigurationError(
                    f"interpreter {python!r} is not allowed here",
                    next="start the server with it in `pythons`",
                )
            return Resolved(Kind(name, python), None, dict(params))
        try:
            target = await asyncio.to_thread(self._target, name)
        except PluginError as error:
            raise ConfigurationError(error.what, where=error.where, next=error.next) from error
        description = describe(target)
        check_requirements(name, description)
        checked = check(target, params, where=f"environment {name!r}")
        seats = max(1, int(description.get("instances_per_worker", 1)))
        sent = {key: _sendable(checked[key], params[key]) for key in params}
        return Resolved(Kind(name, sys.executable), seats, sent)

    def _target(self, name: str) -> Any:
        if name not in self._targets:
            self._targets[name] = self._registry.get("environments", name)
        return self._targets[name]


def _sendable(checked: Any, given: Any) -> Any:
    """The converted value where it is a JSON value, else what was given."""
    return checked if plain(checked) == checked else given
