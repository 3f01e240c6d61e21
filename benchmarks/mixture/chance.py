"""Action spaces that take any text for a call and a judge that tosses a coin.

So a policy that has learnt nothing plays whole episodes, and every domain teaches as much as
another: what differs is speed alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from mintact_platform.actions.space import Call
from mintact_platform.actions.tools import ToolUse
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse
from mintact_platform.records.verdict import Verdict


async def coin(task: Any, view: Any) -> Verdict:
    """Success by a coin that the trajectory's id tosses."""
    success = _draw(view.trajectory.id)[0] < 128
    return Verdict("success" if success else "failure", reward=float(success))


class Mobile(MobileUse):
    def parse(self, text: str, tools: Sequence[Any] = ()) -> tuple[Call, ...]:
        return (_click("mobile_use", "click", text),)


class Desktop(ComputerUse):
    def parse(self, text: str, tools: Sequence[Any] = ()) -> tuple[Call, ...]:
        return (_click("computer_use", "left_click", text),)


class Web(BrowserUse):
    def parse(self, text: str, tools: Sequence[Any] = ()) -> tuple[Call, ...]:
        return (_click("browser_use", "click", text),)


class Tools(ToolUse):
    def parse(self, text: str, tools: Sequence[Any] = ()) -> tuple[Call, ...]:
        return (Call("search_tool", {"query": "share"}),)


def _click(name: str, action: str, text: str) -> Call:
    place = _draw(text)
    return Call(name, {"action": action, "coordinate": [4 * place[0], 4 * place[1]]})


def _draw(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
