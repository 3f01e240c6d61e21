"""Families of names: one registered target, `gym/*`, for all names that begin with `gym/`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from mintact_platform.errors import PluginError, near_match
from mintact_platform.registry import signatures

ANY = "/*"
"""How the name of a family ends."""


class Member:
    """One member of a family: the family's target with its keyword `id` bound.

    Everything else is the target's own: its further parameters, its `metadata`. Where the target
    has `missing(*, id)`, the member has `missing()`.

    Attributes:
        target: the family's target.
        id: what follows the family in the name.

    Raises:
        PluginError: the target takes no keyword `id`.
    """

    def __init__(self, target: Callable[..., Any], id: str) -> None:
        self.target, self.id = target, id
        signature = signatures.read(target)
        others = [p for p in signature.parameters.values() if p.name != "id"]
        if len(others) == len(signature.parameters):
            raise PluginError(
                "the target of a family takes no keyword 'id'", where=f"family of {id!r}"
            )
        self.__signature__ = signature.replace(parameters=others)

    def __call__(self, **params: Any) -> Any:
        """Build it."""
        return self.target(id=self.id, **params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def missing(self) -> str | None:
        """What this member needs and does not find here, None when nothing."""
        asked = getattr(self.target, "missing", None)
        return None if asked is None else asked(id=self.id)


def key_of(name: str, registered: Iterable[str]) -> str:
    """The registered name that stands for this one: itself, else its longest family.

    Example:
        >>> key_of("gym/CartPole-v1", ["desktop", "gym/*"])
        'gym/*'
    """
    if name in registered:
        return name
    families = [f for f in registered if f.endswith(ANY) and name.startswith(f[:-1])]
    return max((f for f in families if name != f[:-1]), key=len, default=name)


def hint(name: str, registered: Iterable[str]) -> str:
    """What was probably meant by a name that is not registered."""
    families = {known.removesuffix(ANY) for known in registered if known.endswith(ANY)}
    family, _, rest = name.partition("/")
    close = difflib.get_close_matches(family, families, n=1)
    if not close:
        return near_match(name, registered)
    if rest in ("", "*"):
        return f"write {close[0]}/<id> for a member of the family"
    return f"did you mean {f'{close[0]}/{rest}'!r}?"
