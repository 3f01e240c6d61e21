"""Finding out of which generation an environment is, and loading it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_plugin_verifiers.rollout import Playable


def load(id: str, args: Mapping[str, Any]) -> Playable:
    """The environment, ready to begin rollouts.

    Args:
        id: as verifiers knows it.
        args: its own arguments.

    Raises:
        ConfigurationError: it is not installed, cannot be loaded, or cannot be played.
    """
    where = f"verifiers environment {id!r}"
    if missing := missing_for(id):
        raise ConfigurationError(missing, where=where)
    verifiers = import_module("verifiers")
    if not _is_classic(id, where):
        from mintact_plugin_verifiers.episodes import EpisodeEnvironment

        return EpisodeEnvironment(id, args)
    if not hasattr(verifiers, "load_environment"):
        raise ConfigurationError(
            f"it is written for verifiers before 0.4, and {verifiers.__version__} is installed",
            where=where,
            next="pip install 'verifiers<0.4', in an interpreter of its own if need be",
        )
    from mintact_plugin_verifiers.classic import ClassicEnvironment

    return ClassicEnvironment(id, args)


def missing_for(id: str | None) -> str | None:
    """What is not installed here, None when nothing; without an id, of all environments."""
    if find_spec("verifiers") is None:
        return "the package 'verifiers' is not installed: pip install verifiers"
    if id is not None and _module(id) is None:
        return f"its package is not installed: no module {module_of(id)!r}"
    return None


def module_of(id: str) -> str:
    """The module that holds an environment: `owner/my-env@1.0` is found as `my_env`."""
    return id.rpartition("/")[2].partition("@")[0].replace("-", "_")


def _module(id: str) -> str | None:
    """The module that is installed; verifiers ships some tasksets itself."""
    name = module_of(id)
    if find_spec("verifiers.v1") is not None and find_spec("verifiers.v1.tasksets") is not None:
        shipped = f"verifiers.v1.tasksets.{name.lower()}"
        if find_spec(shipped) is not None:
            return shipped
    return name if find_spec(name) is not None else None


def _is_classic(id: str, where: str) -> bool:
    """Whether its module is written for verifiers before 0.4."""
    try:
        module = import_module(str(_module(id)))
    except Exception as error:
        raise ConfigurationError(
            f"cannot be imported ({type(error).__name__}: {error})", where=where
        ) from error
    return hasattr(module, "load_environment")
