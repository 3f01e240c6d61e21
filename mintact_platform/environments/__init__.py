"""The lease protocol, both sides.

An author writes a `gymnasium.Env` (or the same methods awaited, `AsyncEnvironment`) and uses
`CallSpace` and `ScreenSpace` as its spaces; everything else here is the platform's work.
`RemoteEnvironment` is the other end of a lease, a `gymnasium.Env` again.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mintact_platform.environments.asyncenv import AsyncEnvironment as AsyncEnvironment
    from mintact_platform.environments.client.remote import RemoteEnvironment as RemoteEnvironment
    from mintact_platform.environments.spaces import CallSpace as CallSpace
    from mintact_platform.environments.spaces import ScreenSpace as ScreenSpace

_PUBLIC = {
    "AsyncEnvironment": "asyncenv",
    "CallSpace": "spaces",
    "RemoteEnvironment": "client.remote",
    "ScreenSpace": "spaces",
}

__all__ = ["AsyncEnvironment", "CallSpace", "RemoteEnvironment", "ScreenSpace"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
