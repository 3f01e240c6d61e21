"""Reading what a verb's flags choose: parameters as `key=value`, a plugin by name or as TOML."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from mintact_platform.config import Plugin
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry

PORTS = 65535


def read_value(text: str) -> Any:
    """A value as TOML, else as the string it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def whole(flag: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """A flag's `type` for argparse: a whole number within bounds.

    Raises:
        ConfigurationError: from what it returns, for any other text.
    """

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
        if number is None or number < least or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ConfigurationError(f"must be a whole number {bounds}, got {text!r}", where=flag)
        return number

    return read


def read_pairs(pairs: Iterable[str], flag: str) -> dict[str, Any]:
    """Parameters from `key=value`.

    Raises:
        ConfigurationError: one without a key or an equals sign.
    """
    values = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key.strip():
            raise ConfigurationError(
                f"cannot read {pair!r}", where=flag, next="write key=value, e.g. icons=4"
            )
        values[key.strip()] = read_value(text)
    return values


def read_plugin(text: str, flag: str) -> Plugin:
    """A plugin as in a run file: `state`, or `{name="state", params={reward="score"}}`.

    Raises:
        ConfigurationError: it is neither.
    """
    value = read_value(text) if text.lstrip().startswith("{") else {"name": text}
    try:
        return Plugin.model_validate(value)
    except ValidationError:
        raise ConfigurationError(
            f"cannot read {text!r}",
            where=flag,
            next="""write a name, or '{name="…", params={…}}'""",
        ) from None


def check_environment(registry: Registry, name: str, params: dict[str, Any] | None) -> None:
    """Refuse an environment that cannot be made here.

    Args:
        registry: installed plugins.
        name: registered name, or `module:attribute`.
        params: its parameters; None leaves them to whoever leases it.

    Raises:
        PluginNotFound: with the near match.
        ConfigurationError: a wrong parameter, or a program this machine lacks.
    """
    target = registry.get("environments", name)
    if params is not None:
        parameters.check(target, params, where=f"environment {name!r}")
    missing = getattr(target, "missing", None)
    if missing is not None and (what := missing()):
        raise ConfigurationError(f"environment {name!r} cannot run here: {what}")


def check_bearer(name: str | None) -> None:
    """Refuse the name of an environment variable that holds nothing.

    Raises:
        ConfigurationError: it is not set, or empty.
    """
    if name is not None and not os.environ.get(name):
        raise ConfigurationError(
            f"the environment variable {name!r} is not set",
            where="--bearer-env",
            next=f"export {name}=$(openssl rand -hex 24)",
        )
