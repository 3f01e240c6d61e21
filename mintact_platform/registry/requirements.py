"""`required_plugins`: what must be installed in which versions, and one line where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mintact_platform.errors import PluginError
from mintact_platform.registry import metadata
from mintact_platform.registry.loader import PluginRow


def read(text: str) -> Requirement:
    """A requirement as pip takes it, e.g. `mintact-env-desktop>=0.2`.

    Raises:
        PluginError: it is none.
    """
    try:
        return Requirement(text)
    except InvalidRequirement:
        raise PluginError(f"cannot read {text!r}", next="write name>=version") from None


def check(
    needs: Iterable[str],
    rows: Sequence[PluginRow],
    left_out: Sequence[PluginRow] = (),
    *,
    where: str,
) -> None:
    """Compare requirements with what is installed; distributions that are no plugins count too.

    Raises:
        PluginError: one line about everything that does not fit.
    """
    loaded = {str(canonicalize_name(row.distribution)): row for row in rows}
    aside = {str(canonicalize_name(row.distribution)): row for row in left_out}
    problems, to_install, broken = [], [], []
    for text in needs:
        need = read(text)
        name = str(canonicalize_name(need.name))
        row = loaded.get(name)
        found = row.version if row else metadata.version(need.name)
        if name in aside:
            problems.append(f"{need.name} is {aside[name].state}")
        elif found is None:
            problems.append(f"{text} is not installed")
            to_install.append(text)
        elif not need.specifier.contains(found, prereleases=True):
            problems.append(f"{text} is required, {found} is installed")
            to_install.append(text)
        elif row and row.state == "failed":
            problems.append(f"{need.name} {found} does not load ({row.error})")
            broken.append(need.name)
    if problems:
        quoted = " ".join(f"'{text}'" for text in to_install)
        follow = f"pip install {quoted}" if quoted else " ".join(("mintact plugins", *broken))
        raise PluginError("; ".join(problems), where=where, next=follow)


def about(distribution: str, needs: Iterable[str]) -> list[str]:
    """Those requirements that name one distribution."""
    name = canonicalize_name(distribution)
    return [text for text in needs if canonicalize_name(read(text).name) == name]
