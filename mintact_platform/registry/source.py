"""Where a registered thing is imported from, so that another process needs no discovery."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NamedTuple

from mintact_platform.errors import PluginError
from mintact_platform.registry.families import Member
from mintact_platform.registry.guard import contained
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
        try:
            with contained():
                return resolve_name(target)
        except PluginError as error:
            raise PluginError(
                f"{target!r} {error.what}", where=self.where, next=error.next
            ) from error
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"cannot import {target!r} ({one_line(error)})", where=self.where
            ) from error
