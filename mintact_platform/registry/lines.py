"""What plugin code raised, on one line."""

from __future__ import annotations

import pluggy

from mintact_platform.errors import PluginError
from mintact_platform.registry.guard import Hung

_LONGEST = 300
"""Characters of an error."""


def one_line(error: BaseException) -> str:
    """An error as one printable line; our own ones without their type."""
    try:
        text = str(error)
    except Exception:
        # a plugin's own exception may not even be able to say what it is
        text = "an error without a text"
    if not isinstance(error, PluginError | Hung):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # pluggy names the wrong argument on the last of its lines
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = "; ".join(lines if isinstance(error, pluggy.PluginValidationError) else lines[:1])
    return "".join(c if c.isprintable() else " " for c in chosen)[:_LONGEST]
