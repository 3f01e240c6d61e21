"""`key=value` on the command line: one setting of a TOML file, said without editing it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mintact_platform.errors import ConfigurationError, near_match

_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s."'=][^."'=]*?)\s*([.=])""")
"""One name of a key and what ends it; in quotes a name may hold anything, as in TOML."""


class Override(NamedTuple):
    """One setting.

    Attributes:
        text: as it was given.
        path: names of the tables and, last, of the key.
        value: read as TOML, else as a string.
    """

    text: str
    path: tuple[str, ...]
    value: Any


def read_override(text: str) -> Override:
    """Take `key=value` apart.

    Raises:
        ConfigurationError: there is no key, no value, or a quote is not closed.

    Example:
        >>> read_override('domains."micro.web".quota=2')[1:]
        (('domains', 'micro.web', 'quota'), 2)
    """
    path, position, end = [], 0, "."
    while end == ".":
        part = _PART.match(text, position)
        if part is None:
            raise _unreadable(text)
        name, end = part.groups()
        path.append(_unquoted(name, text))
        position = part.end()
    return Override(text, tuple(path), _value(text[position:]))


def apply_overrides(values: dict[str, Any], texts: Sequence[str]) -> None:
    """Put settings into values that were read from TOML; nothing is checked yet but their place.

    Raises:
        ConfigurationError: one that cannot be read, one inside of a value, a detail of a domain
            that there is not.
    """
    overrides, known = [read_override(text) for text in texts], set(_domains(values))
    # what is larger first, and of it a plugin's name: details are those that come with it
    for override in sorted(overrides, key=lambda o: (len(o.path), o.path[-1] != "name")):
        _put(values, override)
    for override in overrides:
        _refuse_new_domain(values, known, override)


def _put(values: dict[str, Any], override: Override) -> None:
    """Another `name` of a plugin leaves the parameters of the one before behind."""
    *parents, last = override.path
    target = values
    for part, detail in zip(parents, override.path[1:], strict=True):
        if isinstance(target.get(part), str) and (part == "judge" or detail == "params"):
            target[part] = {"name": target[part]}  # a bare name stood for the plugin
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            what = f"{part!r} holds a value, not a section"
            raise ConfigurationError(what, where=override.text)
    if last == "name" and "params" in target and target.get("name") != override.value:
        del target["params"]
    target[last] = override.value


def _refuse_new_domain(values: Mapping[str, Any], known: set[str], override: Override) -> None:
    """An override may describe a whole domain, but not a detail of one that there is not."""
    section, *names = override.path
    if section != "domains" or not names or names[0] in known:
        return
    added = _domains(values).get(names[0])
    if isinstance(added, Mapping) and "environment" not in added:
        raise ConfigurationError(
            f"no domain {names[0]!r}", where=override.text, next=_meant(override, known)
        )


def _meant(override: Override, known: Iterable[str]) -> str:
    """The key with its quotes, which shells eat, where a dot parts a domain's name in two."""
    _, *names = override.path
    _, _, text = override.text.partition("=")
    for end in range(len(names), 1, -1):
        domain = ".".join(names[:end])
        if domain in known:
            key = ".".join(["domains", f'"{domain}"', *names[end:]])
            return f"a name with a dot takes quotes: '{key}={text}'"
    return near_match(names[0], known)


def _domains(values: Mapping[str, Any]) -> Mapping[str, Any]:
    section = values.get("domains")
    return section if isinstance(section, Mapping) else {}


def _unquoted(name: str, text: str) -> str:
    if name[0] not in "\"'":
        return name
    try:
        return str(tomllib.loads(f"name = {name}")["name"])
    except ValueError:
        raise _unreadable(text) from None


def _value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # a text of several lines may go on with what looks like another setting
    return read["value"] if len(read) == 1 else text


def _unreadable(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"cannot read {text!r}", where="override", next="write key=value, e.g. trainer.lr=1e-5"
    )
