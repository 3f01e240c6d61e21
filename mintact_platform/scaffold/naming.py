"""The names of a new plugin: one word from the user, five places where it stands."""

from __future__ import annotations

import keyword
import re
from typing import NamedTuple

from mintact_platform.errors import ConfigurationError

NAMESPACE = "acme"
"""Namespace of a name that brings none."""
_PART = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")
_EXAMPLE = "write it like acme/maze: namespace/name in lower-case letters, digits and hyphens"
_LONGEST = 60


class Names(NamedTuple):
    """A new plugin's names.

    Attributes:
        registered: what a run file says, `acme/tic-tac-toe`.
        distribution: what pip installs, `acme-tic-tac-toe`; normalised as PEP 503 has it.
        package: what Python imports, `acme_tic_tac_toe`.
        function: of its code, `tic_tac_toe`.
        title: of its class, `TicTacToe`.
    """

    registered: str
    distribution: str
    package: str
    function: str
    title: str


def read_name(text: str) -> Names:
    """The names that a user's word gives.

    Args:
        text: `acme/maze`, or `maze` for the namespace `acme`.

    Raises:
        ConfigurationError: it cannot be the name of a distribution and of a package.

    Example:
        >>> read_name("acme/tic-tac-toe").package
        'acme_tic_tac_toe'
    """
    where = f"name {text!r}"
    namespace, separator, name = text.rpartition("/")
    parts = (namespace if separator else NAMESPACE, name)
    for part in parts:
        if not _PART.fullmatch(part):
            lower = text.lower()
            hint = f"did you mean {lower!r}?" if lower != text and _reads(lower) else _EXAMPLE
            raise ConfigurationError(f"{part!r} is no name", where=where, next=hint)
    space, short = (re.sub(r"[-_.]+", "-", part) for part in parts)
    function = short.replace("-", "_")
    if keyword.iskeyword(function):
        raise ConfigurationError(
            f"{function!r} is a word of Python", where=where, next="choose another"
        )
    if space == "mintact":
        raise ConfigurationError(
            "the namespace 'mintact' is the platform's own", where=where, next="take your own"
        )
    distribution = f"{space}-{short}"
    if len(distribution) > _LONGEST:
        raise ConfigurationError(f"longer than {_LONGEST} characters", where=where)
    title = "".join(word.capitalize() for word in short.split("-"))
    return Names(f"{space}/{short}", distribution, distribution.replace("-", "_"), function, title)


def _reads(text: str) -> bool:
    return all(_PART.fullmatch(part) for part in text.split("/")) and text.count("/") < 2
