"""What runs in pages: parts that run before a page's own scripts, and others that are called."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_PARTS = ("pulse.js", "calm.js", "quiet.js", "clipboard.js", "select.js")


@cache
def script(name: str) -> str:
    """The text of a script of this folder."""
    return (files(__name__) / name).read_text()


@cache
def page_script() -> str:
    """All parts of every page, each in its own scope; `pulse.js` comes first, the others use it."""
    return "\n".join(f"(() => {{\n{script(part)}\n}})();" for part in _PARTS)
