"""What is installed: entry points and versions. Only this module imports `importlib_metadata`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from importlib_metadata import EntryPoint, PackageNotFoundError, entry_points
from importlib_metadata import version as _version
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mintact_platform.errors import PluginError

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Installed(NamedTuple):
    """One entry point and the distribution that brings it.

    Attributes:
        distribution: its name.
        version: its version.
        requires: what it needs, as it says itself.
        point: the entry point.
    """

    distribution: str
    version: str
    requires: tuple[str, ...]
    point: EntryPoint


def plugins(group: str) -> list[Installed]:
    """Every entry point of the group once, sorted by distribution and name."""
    found: dict[tuple[str, str], Installed] = {}
    for point in entry_points(group=group):
        one = _read(point)
        # an editable install may list its entry point twice on sys.path
        found.setdefault((one.distribution, point.name), one)
    return [found[key] for key in sorted(found)]


def version(distribution: str) -> str | None:
    """The version of any distribution, None where it is not installed."""
    try:
        return _version(distribution)
    except PackageNotFoundError:
        return None


def check_requirements(plugin: Installed, versions: Mapping[str, str]) -> None:
    """Compare what a plugin says it needs with the core and the plugins that are installed.

    Args:
        plugin: before it is imported.
        versions: of the core and all plugins, by canonical name.

    Raises:
        PluginError: naming the first that does not fit.
    """
    for text in plugin.requires:
        # to parse all the others costs as much as an import
        match = _NAME.match(text)
        found = versions.get(canonicalize_name(match[0])) if match else None
        if found is not None and not _fits(text, found):
            need = Requirement(text)
            raise PluginError(
                f"needs {need.name}{need.specifier}, but {found} is installed",
                next=f"pip install --upgrade {plugin.distribution} {need.name}",
            )


@lru_cache
def _fits(text: str, version: str) -> bool:
    need = Requirement(text)
    if need.marker is not None and not need.marker.evaluate({"extra": ""}):
        return True
    return need.specifier.contains(version, prereleases=True)


def _read(point: EntryPoint) -> Installed:
    text = ""
    if point.dist is not None:
        text = point.dist.read_text("METADATA") or point.dist.read_text("PKG-INFO") or ""
    values = _headers(text)
    name, number = values.get("Name", [point.name]), values.get("Version", ["?"])
    return Installed(name[0], number[0], tuple(values.get("Requires-Dist", ())), point)


def _headers(text: str) -> dict[str, list[str]]:
    """The three headers that matter; a parser for mail takes longer than most imports."""
    values: dict[str, list[str]] = {}
    for line in text.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        if key in ("Name", "Version", "Requires-Dist"):
            values.setdefault(key, []).append(value.strip())
    return values
