"""The Chromium that the web domain runs: where it is, how it is started, how it is shared."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from PIL import Image

from mintact_env_micro.scene import Screenshot
from mintact_platform.errors import ConfigurationError

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Page, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BUSY = "Unable to capture screenshot"
"""What the browser says of a page that it could not draw in time, and that is well."""
CAPTURE_TRIES = 5
CAPTURE_PAUSE_S = 0.2
LAUNCH_DEADLINE_S = 60
CLOSE_DEADLINE_S = 10


def browser_path() -> Path | None:
    """The browser's executable: `MINTACT_CHROMIUM`, else the first one on the path, else None."""
    chosen = os.environ.get("MINTACT_CHROMIUM")
    if chosen:
        return Path(chosen) if os.access(chosen, os.X_OK) else None
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return None if found is None else Path(found)


def require_browser() -> Path:
    """The browser's executable.

    Raises:
        ConfigurationError: when there is none, saying what to install.
    """
    path = browser_path()
    if path is None:
        raise ConfigurationError(
            "no Chromium found",
            where="micro/web",
            next="run `apt-get install chromium-headless-shell` or set MINTACT_CHROMIUM",
        )
    return path


def sandbox_flags() -> tuple[str, ...]:
    """Chromium refuses its own sandbox to root."""
    return ("--no-sandbox",) if os.geteuid() == 0 else ()


@dataclass(frozen=True)
class View:
    """A page and the debugging session that takes its picture."""

    page: Page
    session: CDPSession

    async def capture(self) -> Screenshot:
        """The viewport, uint8 `[height, width, 3]`."""
        # page.screenshot waits for fonts and frames and takes several times as long
        for tries_left in reversed(range(CAPTURE_TRIES)):
            try:
                shot = await self.session.send(
                    "Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True}
                )
                break
            except Exception as error:  # playwright's own, which is not imported for this
                if BUSY not in str(error) or not tries_left:
                    raise
                await asyncio.sleep(CAPTURE_PAUSE_S)
        image = Image.open(io.BytesIO(base64.b64decode(shot["data"])))
        return np.asarray(image.convert("RGB"))


@asynccontextmanager
async def open_view(browser: Browser, width: int, height: int) -> AsyncIterator[View]:
    """A blank page without network, one pixel a pixel, in a context that is closed afterwards."""
    context = await browser.new_context(
        viewport={"width": width, "height": height}, offline=True, service_workers="block"
    )
    try:
        page = await context.new_page()
        yield View(page, await context.new_cdp_session(page))
    finally:
        if browser.is_connected():
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await context.close()


class SharedBrowser:
    """One Chromium for all environments of an event loop: the first starts it, the last ends it."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._users = 0
        self._running: Running | None = None

    async def acquire(self) -> Browser:
        """The running browser; every call needs one `release`. A browser that died is replaced."""
        async with self._lock:
            if self._running is None or not self._running.browser.is_connected():
                await self._stop()
                self._running = await launch()
            self._users += 1
            return self._running.browser

    async def release(self) -> None:
        """Give the browser back."""
        async with self._lock:
            self._users -= 1
            if self._users == 0:
                await self._stop()

    async def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.stop()


@dataclass(frozen=True)
class Running:
    """A browser and the driver that started it."""

    playwright: Playwright
    browser: Browser

    async def stop(self) -> None:
        """End both."""
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await self.browser.close()
        finally:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await self.playwright.stop()


async def launch() -> Running:
    """Start a browser.

    Raises:
        ConfigurationError: there is none.
    """
    start = asyncio.create_task(_launch())
    try:
        return await asyncio.shield(start)
    except asyncio.CancelledError:
        # a driver that is cancelled while it starts stays behind: let it start, then stop it
        await asyncio.shield(_discard(start))
        raise


async def _launch() -> Running:
    # a heavy import, and only the live page needs it
    from playwright.async_api import async_playwright

    executable = require_browser()
    async with asyncio.timeout(LAUNCH_DEADLINE_S):
        playwright = await async_playwright().start()
        try:
            browser = await playwright.chromium.launch(
                executable_path=executable,
                args=[*QUIET, *sandbox_flags()],
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except BaseException:
            await asyncio.shield(playwright.stop())
            raise
    return Running(playwright, browser)


async def _discard(start: asyncio.Task[Running]) -> None:
    await asyncio.wait([start])
    if not start.cancelled() and start.exception() is None:
        await start.result().stop()


def shared_browser() -> SharedBrowser:
    """The running event loop's browser."""
    return _SHARED.setdefault(asyncio.get_running_loop(), SharedBrowser())


# A browser costs 200 MB, a context 28: the environments of a worker must find each other's.
_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedBrowser] = WeakKeyDictionary()
