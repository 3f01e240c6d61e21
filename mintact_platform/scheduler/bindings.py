"""A domain's action space: by a plugin where one is installed, else as its servers describe it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mintact_platform.actions.described import described_space
from mintact_platform.actions.space import ActionSpace
from mintact_platform.config import DomainSection, Plugin
from mintact_platform.environments.client.address import address_of
from mintact_platform.environments.client.lookup import described_at
from mintact_platform.environments.worker.describing import check_interpreter, described_by
from mintact_platform.errors import ConfigurationError, PluginError, PluginNotFound, about
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry

OFFERS = ("system_prompt", "parse", "to_pixels", "observation_text")
"""Methods of an action space that every rollout calls."""


def action_space(
    section: DomainSection, registry: Registry, *, where: str, deadline: float
) -> ActionSpace:
    """The domain's action space, its environment and that environment's parameters checked.

    Args:
        section: of the domain.
        registry: installed plugins.
        where: the section's name, for errors.
        deadline: seconds in which a server or another interpreter must describe what is not
            installed here.

    Raises:
        ConfigurationError: a wrong parameter, a missing program, nobody who knows the environment.
        PluginError: a name that no plugin registers.
    """
    metadata = _environment(section, registry, where, deadline)
    choice = section.action_space
    if choice is None:
        if not metadata.get("action_space"):
            raise ConfigurationError(
                f"environment {section.environment!r} names no action space",
                where=f"{where}.environment",
                next="add action_space = '…' to the domain",
            )
        choice = Plugin(name=metadata["action_space"])
    named = f"action_space {choice.name!r}"
    with about(f"{where}.action_space"):
        target = _space(choice.name, metadata, registry)
        bound = parameters.bind(target, choice.params, where=named)
        space: ActionSpace = parameters.made(bound, where=named, offers=OFFERS)
    return space


def _environment(
    section: DomainSection, registry: Registry, where: str, deadline: float
) -> Mapping[str, Any]:
    """The environment's metadata; what is not installed here is described from afar."""
    own_file = ":" in section.environment.partition("/")[0]
    if own_file and section.servers and _is_here(section.action_space, registry):
        return {}
    elsewhere = section.servers or section.python not in (None, sys.executable)
    if section.python is not None and elsewhere and not section.servers:
        with about(f"{where}.python"):
            check_interpreter(section.python, deadline)
    try:
        with about(f"{where}.environment"):
            target = None if own_file else registry.get("environments", section.environment)
    except PluginError:
        if not elsewhere:
            raise
        target = None
    if target is not None and (section.servers or not elsewhere):
        _check_servers(section, where)
        return _installed(target, section, where)
    described = _described(section, where, deadline)
    schema, refused = described.get("parameters") or {}, described.get("refused")
    asked = "refused" in described
    parameters.check_schema(schema, section.params, where=f"{where}.params", names_only=asked)
    if refused is not None:
        raise ConfigurationError(refused["what"], where=f"{where}.params", next=refused["next"])
    return described


def _check_servers(section: DomainSection, where: str) -> None:
    """Refuse servers that no request can be sent to; whether they answer is seen at the start."""
    for url in section.servers:
        scheme, _, rest = address_of(url).partition("://")
        if scheme not in ("http", "https") or not rest:
            raise ConfigurationError(
                f"{url!r} is no address", where=f"{where}.servers", next="write http://host:port"
            )
    _bearer(section, where)


def _bearer(section: DomainSection, where: str) -> str | None:
    bearer = os.environ.get(section.bearer_env) if section.bearer_env else None
    if section.bearer_env and not bearer:
        raise ConfigurationError(
            f"the environment variable {section.bearer_env!r} is not set",
            where=f"{where}.bearer_env",
        )
    return bearer


def _is_here(choice: Plugin | None, registry: Registry) -> bool:
    known = registry.names("action_spaces")
    return choice is not None and (":" in choice.name or choice.name in known)


def _installed(target: Any, section: DomainSection, where: str) -> Mapping[str, Any]:
    parameters.check(target, section.params, where=f"{where}.params")
    missing = getattr(target, "missing", None)
    elsewhere = section.servers or section.python not in (None, sys.executable)
    what = None
    if not elsewhere and missing is not None:
        with about(f"{where}.environment"):
            what = parameters.made(missing, where=f"environment {section.environment!r}")
    if what:
        raise ConfigurationError(
            f"environment {section.environment!r} cannot run here: {what}",
            where=f"{where}.environment",
            next="install it, or leave the domain out of the run file",
        )
    metadata: Mapping[str, Any] = getattr(target, "metadata", {}).get("mintact", {})
    return metadata


def _described(section: DomainSection, where: str, deadline: float) -> Mapping[str, Any]:
    if not section.servers:
        with about(f"{where}.{'environment' if section.python is None else 'python'}"):
            python = section.python or sys.executable
            return described_by(python, section.environment, deadline, section.params)
    with about(f"{where}.servers"):
        return described_at(
            section.servers,
            section.environment,
            python=section.python,
            bearer=_bearer(section, where),
            deadline=deadline,
        )


def _space(name: str, metadata: Mapping[str, Any], registry: Registry) -> Callable[..., Any]:
    try:
        target: Callable[..., Any] = registry.get("action_spaces", name)
    except PluginNotFound:
        schema = metadata.get("action_space_schema")
        if not schema or schema.get("name") != name:
            raise
        target = described_space(schema)
    return target
