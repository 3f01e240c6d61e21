"""Who clicks and looks: `WebEnvironment`, and loops that only use Playwright.

Every contestant has a browser of its own, the same program with the same flags, and as many
contexts as are asked for. A step is one click and the encoded screenshot after it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

import page
from mintact_env_web.browser.driver import start_driver
from mintact_env_web.browser.frames import CAPTURE_DEADLINE_S
from mintact_env_web.browser.host import browser_host
from mintact_env_web.browser.launch import arguments, require_chromium
from mintact_env_web.browser.processes import MARK
from mintact_env_web.environment import WebEnvironment

from mintact_platform.records.task import Task

Step = Callable[[int], Awaitable[bytes]]
"""Clicks the card of this number and returns the picture."""
Count = Callable[[], Awaitable[int]]
"""How many clicks the page has seen."""

OURS, PLAIN, PNG = "WebEnvironment", "plain loop, CDP JPEG", "plain loop, Playwright's PNG"
JPEG = "playwright, jpeg"
TASK = Task("cards", "click", "web", seed=1)
QUALITY = 80


class Contestant(Protocol):
    """One way to drive pages.

    Attributes:
        mark: of its browser's processes; see `browser_processes`.
    """

    mark: str

    async def open(self) -> tuple[Step, Count]:
        """One more context with the page; it stays until the contestant is closed."""
        ...

    async def close(self) -> None:
        """End the browser."""
        ...


class Cards:
    """The page as a source of `WebEnvironment`."""

    failures = ()

    async def open(self, context: Any, task: Task, seed: int) -> str:
        await _serve(context)
        return page.URL

    async def check(self, page: Any, task: Task, answer: str | None) -> None:
        return None

    async def close(self) -> None:
        pass


class Ours:
    """`WebEnvironment.step`: the click, the picture of the page at rest, tabs, dialogs, failures.

    Args:
        image_format: `jpeg` or `png`.
    """

    def __init__(self, image_format: Any) -> None:
        self._format = image_format
        self._stack = AsyncExitStack()

    @property
    def mark(self) -> str:
        return browser_host().mark or ""

    async def open(self) -> tuple[Step, Count]:
        environment = WebEnvironment(Cards(), image_format=self._format)
        self._stack.push_async_callback(environment.close)
        await environment.reset(seed=1, options={"task": TASK.to_json()})

        async def step(number: int) -> bytes:
            call = {"action": "click", "coordinate": list(page.target(number))}
            seen, *_ = await environment.step({"name": "browser_use", "arguments": call})
            return bytes(seen["screenshot"])

        async def count() -> int:
            return int(await environment.page.evaluate(page.COUNT))

        return step, count

    async def close(self) -> None:
        await self._stack.aclose()


class Plain:
    """What a loop costs that clicks and takes pictures, and does nothing else.

    Args:
        how: `cdp jpeg`, `page.screenshot jpeg` or `page.screenshot png`.
    """

    def __init__(self, how: str) -> None:
        self._how = how
        self.mark = secrets.token_hex(8)
        self._stack = AsyncExitStack()
        self._browser: Any = None

    async def open(self) -> tuple[Step, Count]:
        if self._browser is None:
            await self._start()
        size: Any = {"width": page.WIDTH, "height": page.HEIGHT}
        context = await self._browser.new_context(viewport=size, device_scale_factor=1)
        await _serve(context)
        tab = await context.new_page()
        await tab.goto(page.URL)
        picture = await self._picture(context, tab)

        async def step(number: int) -> bytes:
            await tab.mouse.click(*page.target(number))
            return await picture()

        async def count() -> int:
            return int(await tab.evaluate(page.COUNT))

        return step, count

    async def close(self) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        driver = await start_driver()
        self._stack.push_async_callback(driver.stop)
        self._browser = await driver.playwright.chromium.launch(
            executable_path=require_chromium(),
            args=arguments(),
            ignore_default_args=["--hide-scrollbars"],
            env={**os.environ, MARK: self.mark},
        )
        self._stack.push_async_callback(self._browser.close)

    async def _picture(self, context: Any, tab: Any) -> Callable[[], Awaitable[bytes]]:
        if self._how != "cdp jpeg":
            kind = self._how.rpartition(" ")[2]
            options = {"quality": QUALITY} if kind == "jpeg" else {}
            return lambda: tab.screenshot(type=kind, **options)
        session = await context.new_cdp_session(tab)
        wanted = {"format": "jpeg", "quality": QUALITY}

        async def capture() -> bytes:
            while True:
                # now and then the browser never answers, and a loop that only waits waits for ever
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CAPTURE_DEADLINE_S):
                        shot = await session.send("Page.captureScreenshot", wanted)
                        return base64.b64decode(shot["data"])

        return capture


async def _serve(context: Any) -> None:
    body = page.html()

    async def answer(route: Any) -> None:
        await route.fulfill(body=body, content_type="text/html; charset=utf-8")

    await context.route("**/*", answer)


def contestants() -> dict[str, Callable[[], Contestant]]:
    """All by name."""
    return {
        OURS: lambda: Ours("jpeg"),
        PLAIN: lambda: Plain("cdp jpeg"),
        JPEG: lambda: Plain("page.screenshot jpeg"),
        PNG: lambda: Plain("page.screenshot png"),
    }
