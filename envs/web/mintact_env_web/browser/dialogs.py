"""Dialogs of a page: answered at once, so that no page waits for ever, and told to the agent.

Policy: every dialog is accepted. `alert` is closed, `confirm` says yes, `prompt` returns its
default text, `beforeunload` lets the page be left. The agent reads the dialog's text in the next
observation. More than `MAX_PER_STEP` in one step fail the episode.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from playwright.async_api import Dialog

MAX_PER_STEP = 20
DEADLINE_S = 5


class Listener(Protocol):
    """Who is told about dialogs: the screen."""

    def note(self, text: str) -> None:
        """A line for the agent."""
        ...

    def fail(self, reason: str) -> None:
        """The page cannot be used."""
        ...

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside the steps."""
        ...


class Dialogs:
    """Answers the dialogs of an episode.

    Args:
        listener: told about them.

    Attributes:
        seen: dialogs of the running step.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.seen = 0

    def begin_step(self) -> None:
        """Count anew."""
        self.seen = 0

    def answer(self, dialog: Dialog) -> None:
        """Accept a dialog, or give up on a page that opens them without end."""
        self.seen += 1
        if self.seen > MAX_PER_STEP:
            self._listener.fail("the page opens dialogs without end")
            return
        if dialog.type == "beforeunload":
            self._listener.note("The page asked whether to leave it; it was left.")
        else:
            answer = f"; answered {dialog.default_value!r}" if dialog.type == "prompt" else ""
            self._listener.note(f"Dialog ({dialog.type}): {dialog.message!r}{answer}")
        self._listener.own(_accept(dialog))


async def _accept(dialog: Dialog) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await dialog.accept(dialog.default_value if dialog.type == "prompt" else None)
