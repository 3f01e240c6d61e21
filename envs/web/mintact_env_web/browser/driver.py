"""The process between us and the browser: started once, replaced when it hangs."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mintact_env_web.browser.processes import children, command_line, descendants, kill

if TYPE_CHECKING:
    from playwright.async_api import Playwright

START_DEADLINE_S = 20
STOP_DEADLINE_S = 5


@dataclass(frozen=True)
class Driver:
    """A running Playwright driver.

    Attributes:
        playwright: its handle.
        processes: its ids.
    """

    playwright: Playwright
    processes: frozenset[int]

    async def stop(self) -> None:
        """End it, by force if need be, with whatever it started."""
        below = await asyncio.to_thread(descendants, set(self.processes))
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await self.playwright.stop()
        except Exception:
            # a driver that died or hangs does not answer
            await asyncio.to_thread(kill, below | self.processes)


async def start_driver() -> Driver:
    """Start a driver.

    Raises:
        TimeoutError: it does not start.
    """
    # a heavy import, and only a live page needs it
    from playwright.async_api import async_playwright

    before = children(os.getpid())
    async with asyncio.timeout(START_DEADLINE_S):
        playwright = await async_playwright().start()
    started = children(os.getpid()) - before
    ours = frozenset(pid for pid in started if b"playwright" in command_line(pid))
    return Driver(playwright, ours)
