"""What a server may lease: names resolved, parameters checked, interpreters allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mintact_platform.environments.server.hosting import Kind
from mintact_platform.environments.server.threads import OwnThreads
from mintact_platform.environments.worker.describing import (
    describe_action_space,
    described_by,
    full_description,
)
from mintact_platform.environments.worker.encoding import plain
from mintact_platform.environments.worker.main import check_requirements, describe
from mintact_platform.environments.worker.main import seats as seats_of
from mintact_platform.errors import ConfigurationError, PluginError, near_match
from mintact_platform.registry.families import key_of
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
from mintact_platform.registry.source import Source


class Resolved(NamedTuple):
    """An environment that can be placed.

    Attributes:
        kind: for the choice of a worker.
        seats: instances a worker may host, None when only the worker can say.
        params: checked, JSON values.
        limits: what the environment says its worker may use.
        source: spares the worker the discovery of plugins, None where it has to look itself.
        requires: what the environment's distribution must be, for a worker that looks itself.
    """

    kind: Kind
    seats: int | None
    params: dict[str, Any]
    limits: Mapping[str, Any] = {}
    source: Source | None = None
    requires: tuple[str, ...] = ()


class Catalogue:
    """The environments of a server.

    Args:
        registry: installed plugins.
        allowed: names and families (`gym/*`) that may be leased; None allows every name,
            `module:attribute` included.
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
        self._spaces: dict[str, dict[str, Any] | None] = {}
        self._importing: dict[str, asyncio.Future[Any]] = {}

    def names(self) -> tuple[str, ...]:
        """Names that can be asked for."""
        return self._registry.names("environments") if self._allowed is None else self._allowed

    def described(self, name: str) -> dict[str, Any]:
        """The `mintact` metadata, {} while the environment was not imported here."""
        return describe(self._targets[name]) if name in self._targets else {}

    def action_space(self, name: str | None) -> dict[str, Any] | None:
        """What an action space says of itself, for clients that have no such plugin.

        It is known at once when an environment that names it was resolved or described before.
        """
        if name is not None and name not in self._spaces:
            self._spaces[name] = describe_action_space(self._registry, name)
        return None if name is None else self._spaces[name]

    async def description(self, name: str, python: str | None = None) -> dict[str, Any]:
        """Everything a client must know that cannot import the environment; see `describing`.

        Raises:
            ConfigurationError: unknown or forbidden name, an interpreter that is not allowed.
        """
        if self._is_foreign(name, python):
            assert python is not None
            described = await asyncio.to_thread(described_by, python, name)
            if described["action_space_schema"] is not None:
                self._spaces[described["action_space"]] = described["action_space_schema"]
            return described
        await self._imported(name)
        return await asyncio.to_thread(full_description, self._registry, name)

    async def resolve(
        self,
        name: str,
        params: Mapping[str, Any],
        python: str | None,
        requires: Sequence[str] = (),
    ) -> Resolved:
        """Check a request for an instance.

        Raises:
            ConfigurationError: unknown or forbidden name, another version of the environment,
                wrong parameter, missing program.
        """
        if self._is_foreign(name, python):
            assert python is not None
            return Resolved(Kind(name, python), None, dict(params), requires=tuple(requires))
        self._check_version(name, requires)
        target = await self._imported(name)
        description = describe(target)
        check_requirements(name, description)
        # off the loop: the first time imports the action space
        await asyncio.to_thread(self.action_space, description.get("action_space"))
        checked = check(target, params, where=f"environment {name!r}")
        seats = seats_of(description)
        sent = {key: _sendable(checked[key], params[key]) for key in params}
        limits = description.get("limits", {})
        source = self._registry.source("environments", name)
        importable = source if isinstance(source.target, str) else None
        return Resolved(Kind(name, sys.executable), seats, sent, limits, importable)

    def _check_version(self, name: str, requires: Sequence[str]) -> None:
        try:
            self._registry.require_of("environments", name, requires, where="environment server")
        except PluginError as error:
            raise ConfigurationError(error.what, where=error.where, next=error.next) from error

    def _is_foreign(self, name: str, python: str | None) -> bool:
        """Whether the environment lives in another interpreter; refuses what is not allowed."""
        if self._allowed is not None and key_of(name, self._allowed) not in self._allowed:
            raise ConfigurationError(
                f"environment {name!r} is not served here", next=near_match(name, self._allowed)
            )
        if python is None or python == sys.executable:
            return False
        if python not in self._pythons:
            raise ConfigurationError(
                f"interpreter {python!r} is not allowed here",
                next="start the server with it in `pythons`",
            )
        return True

    async def _imported(self, name: str) -> Any:
        if name in self._targets:
            return self._targets[name]
        importing = self._importing.get(name)
        if importing is None:
            # an import may hang: it gets a thread of its own, one for all who wait for it
            loop = asyncio.get_running_loop()
            importing = loop.run_in_executor(OwnThreads(), self._target, name)
            self._importing[name] = importing
            importing.add_done_callback(lambda done: self._was_imported(name, done))
        try:
            return await asyncio.shield(importing)
        except PluginError as error:
            raise ConfigurationError(error.what, where=error.where, next=error.next) from error

    def _was_imported(self, name: str, importing: asyncio.Future[Any]) -> None:
        self._importing.pop(name, None)
        # read, because all who waited may be gone
        if not importing.cancelled() and importing.exception() is None:
            self._targets[name] = importing.result()

    def _target(self, name: str) -> Any:
        try:
            return self._registry.get("environments", name)
        except SystemExit as error:
            raise PluginError(
                f"{name!r} exits when it is imported: {error.code}", where="environments"
            ) from error


def _sendable(checked: Any, given: Any) -> Any:
    """The converted value where it is a JSON value, else what was given."""
    return checked if plain(checked) == checked else given
