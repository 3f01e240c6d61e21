"""A browser process of ours: started, told from others, ended by force if need be."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mintact_env_web.browser import memory
from mintact_env_web.browser.launch import Network, arguments, executable
from mintact_env_web.browser.processes import MARK, browser_processes, kill
from mintact_platform.processes import finish

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

LAUNCH_DEADLINE_S = 15
STOP_DEADLINE_S = 4


@dataclass(eq=False)
class Running:
    """A browser process.

    Attributes:
        browser: Playwright's handle.
        mark: in the environment of all its processes.
        directory: its files.
        watcher: ends pages that take too much memory.
        gone: done when it has ended.
        contexts: episodes open in it.
        sick: it failed to close a context; no new ones, and it ends with its last.
    """

    browser: Browser
    mark: str
    directory: Path
    watcher: asyncio.Task[None]
    gone: asyncio.Future[None]
    contexts: int = 0
    sick: bool = False

    @property
    def usable(self) -> bool:
        """Whether new contexts may be opened."""
        return self.browser.is_connected() and not self.sick

    async def stop(self) -> None:
        """End it, by force if need be, and delete its files."""
        self.watcher.cancel()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await self.browser.close()
        except Exception:
            # whatever keeps it from closing ends with its processes
            pass
        finally:
            await asyncio.to_thread(_remove, self.mark, self.directory)


async def start_browser(driver: Playwright, network: Network = "proxy-lock") -> Running:
    """Start a browser that nobody shares yet.

    Args:
        driver: started Playwright.
        network: see `Network`.
    """
    directory = Path(tempfile.mkdtemp(prefix="mintact-web-"))
    mark = secrets.token_hex(8)
    try:
        async with asyncio.timeout(LAUNCH_DEADLINE_S):
            browser = await driver.chromium.launch(
                executable_path=executable(network, directory),
                args=arguments(),
                # a person sees how far a page scrolls
                ignore_default_args=["--hide-scrollbars"],
                downloads_path=directory / "downloads",
                env={**os.environ, MARK: mark},
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
    except BaseException:
        await finish(asyncio.to_thread(_remove, mark, directory))
        raise
    watcher = asyncio.get_running_loop().create_task(memory.watch(mark))
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    browser.on("disconnected", lambda _: _settle(gone))
    return Running(browser, mark, directory, watcher, gone)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _remove(mark: str, directory: Path) -> None:
    """Kill what is left of a browser and delete its files."""
    kill(browser_processes(mark))
    shutil.rmtree(directory, ignore_errors=True)
