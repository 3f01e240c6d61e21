"""Where a registered thing is imported from, so that another process needs no discovery."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NamedTuple

from mintact_platform.errors import PluginError
from mintact_platform.registry.families import Member
from mintact_platform.registry.guard import SECONDS, Hung, imported
from mintact_platform.registry.lines import one_line


class Source(NamedTuple):
    """A registered target that is not imported yet.

    Attributes:
        target: `module:attribute`, or the thing itself where a plugin registers that.
        member: the part of the name after its family, None outside families.
        where: what it is and who registers it, for errors.
    """

    target: str | Callable[..., Any]
    member: str | None = None
    where: str = ""

    def load(self) -> Any:
        """The thing itself.

        Raises:
            PluginError: it cannot be imported, or does harm when it is.
        """
        target = self.target
        if isinstance(target, str):
            target = self._imported(target)
        return target if self.member is None else Member(target, self.member)

    def _imported(self, target: str) -> Any:
        outcome = imported(_Import(target))
        error = outcome.error
        if error is None:
            return outcome.result
        if isinstance(error, PluginError):
            what, follow = f"{target!r} {error.what}", error.next
        elif isinstance(error, Hung):
            what, follow = f"the {error} ({SECONDS})", "see what it waits for while it is imported"
        else:
            what, follow = f"cannot import {target!r} ({one_line(error)})", ""
        raise PluginError(what, where=self.where, next=follow) from error


class _Import:
    """A target, to be imported where it can do no harm."""

    def __init__(self, target: str) -> None:
        self.what, self._target = f"import of {target!r}", target
        self.package = target.partition(":")[0].partition(".")[0]

    def __call__(self) -> Any:
        return resolve_name(self._target)
