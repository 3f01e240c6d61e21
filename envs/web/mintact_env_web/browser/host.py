"""One Chromium for all episodes of an event loop: started late, shared, replaced when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mintact_env_web.browser.driver import Driver, start_driver
from mintact_env_web.browser.guard import Policy
from mintact_env_web.browser.launch import Network
from mintact_env_web.browser.lifetime import owned, unless
from mintact_env_web.browser.proxy import GuardProxy
from mintact_env_web.browser.running import Running, start_browser
from mintact_env_web.browser.scripts import page_script
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.processes import finish

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

MAX_CONTEXTS = 16
"""Episodes at once in one browser."""
OPEN_DEADLINE_S = 20
CLOSE_DEADLINE_S = 4


@dataclass(frozen=True)
class ContextSpec:
    """What an episode's context is like.

    Attributes:
        width: pixels of the page, one a CSS pixel.
        height: pixels.
        network: how far requests get that no route answers.
        policy: which hosts `open` reaches.
        locale: language of the browser.
        timezone: of the browser.
        options: further arguments of Playwright's `new_context`, which win.
    """

    width: int = 1280
    height: int = 720
    network: Network = "proxy-lock"
    policy: Policy = field(default_factory=Policy)
    locale: str = "en-US"
    timezone: str = "UTC"
    options: dict[str, Any] = field(default_factory=dict)


class BrowserHost:
    """Opens isolated contexts in one browser, at most `MAX_CONTEXTS` at a time.

    The browser starts with the first user and ends with the last one; the driver is reused when a
    browser has to be replaced. All methods belong to one event loop.

    Args:
        network: `none` starts a browser that has no network interface; the other two share one.

    Example:
        >>> async with browser_host().context(ContextSpec()) as context:  # doctest: +SKIP
        ...     page = await context.new_page()
    """

    def __init__(self, network: Network = "proxy-lock") -> None:
        self._network = network
        self._lock = asyncio.Lock()
        self._users = 0
        self._driver: Driver | None = None
        self._running: Running | None = None
        self._retired: set[Running] = set()

    @property
    def contexts(self) -> int:
        """Open contexts, those of browsers that are being replaced included."""
        current = [self._running] if self._running is not None else []
        return sum(running.contexts for running in (*current, *self._retired))

    @property
    def mark(self) -> str | None:
        """What marks the processes of the current browser, None while there is none."""
        return None if self._running is None else self._running.mark

    async def acquire(self) -> None:
        """Keep the browser between contexts; every call needs one `release`."""
        self._users += 1

    async def release(self) -> None:
        """Need the browser no more; the last user ends it."""
        self._users -= 1
        if self._users == 0:
            await finish(self._stop())

    @asynccontextmanager
    async def context(self, spec: ContextSpec) -> AsyncIterator[BrowserContext]:
        """An isolated context for one episode; closed on every way out.

        Raises:
            ConfigurationError: no Chromium.
            EnvironmentFailure: phase `reset`; the browser does not start, or is full.
        """
        self._users += 1
        try:
            proxy = await GuardProxy.start(spec.policy) if spec.network == "open" else None
            try:
                running = await self._reserve()
                try:
                    context = await self._open(running, spec, proxy)
                    try:
                        yield context
                    finally:
                        await finish(self._close(running, context))
                finally:
                    await finish(self._vacate(running))
            finally:
                if proxy is not None:
                    await finish(proxy.close())
        finally:
            await self.release()

    async def _reserve(self) -> Running:
        """A seat in a browser that lives."""
        async with self._lock:
            if self.contexts >= MAX_CONTEXTS:
                raise EnvironmentFailure(
                    f"{MAX_CONTEXTS} contexts are open in this browser", phase="reset", kind="full"
                )
            if self._running is not None and not self._running.usable:
                await self._retire(self._running)
            if self._running is None:
                self._running = await owned(self._launch(), Running.stop)
            self._running.contexts += 1
            return self._running

    async def _retire(self, running: Running) -> None:
        self._running = None
        if running.contexts and running.browser.is_connected():
            self._retired.add(running)
        else:
            await finish(running.stop())

    async def _open(
        self, running: Running, spec: ContextSpec, proxy: GuardProxy | None
    ) -> BrowserContext:
        made = owned(_new_context(running, spec, proxy), _discard)
        try:
            context = await unless(running.gone, made)
        except TimeoutError:
            # it may still come, and nobody would close it
            running.sick = True
            raise
        if context is None:
            raise EnvironmentFailure("the browser died", phase="reset", kind="crash")
        return context

    async def _close(self, running: Running, context: BrowserContext) -> None:
        if running.browser.is_connected() and not await _close_context(context):
            running.sick = running.browser.is_connected()

    async def _vacate(self, running: Running) -> None:
        running.contexts -= 1
        if not running.contexts and not running.usable:
            self._retired.discard(running)
            if self._running is running:
                self._running = None
            await running.stop()

    async def _launch(self) -> Running:
        if self._driver is not None:
            try:
                return await start_browser(self._driver.playwright, self._network)
            except ConfigurationError:
                raise
            except Exception:
                # the driver may have died with the browser: once more with a new one
                await self._stop_driver()
        self._driver = await start_driver()
        try:
            return await start_browser(self._driver.playwright, self._network)
        except Exception as error:
            await self._stop_driver()
            raise _unstartable(error) from error

    async def _stop(self) -> None:
        async with self._lock:
            if self._users:
                return
            running, self._running = self._running, None
            try:
                if running is not None:
                    await running.stop()
            finally:
                await self._stop_driver()

    async def _stop_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.stop()


def browser_host(network: Network = "proxy-lock") -> BrowserHost:
    """The running event loop's host for this kind of network."""
    kind: Network = "none" if network == "none" else "proxy-lock"
    hosts = _HOSTS.setdefault(asyncio.get_running_loop(), {})
    if kind not in hosts:
        hosts[kind] = BrowserHost(kind)
    return hosts[kind]


async def _new_context(
    running: Running, spec: ContextSpec, proxy: GuardProxy | None
) -> BrowserContext:
    settings: dict[str, Any] = {
        "viewport": {"width": spec.width, "height": spec.height},
        "device_scale_factor": 1,
        "locale": spec.locale,
        "timezone_id": spec.timezone,
        "reduced_motion": "reduce",
        "service_workers": "block",
        "accept_downloads": True,
    }
    if proxy is not None:
        settings["proxy"] = {"server": proxy.url, "bypass": "<-loopback>"}
    async with asyncio.timeout(OPEN_DEADLINE_S):
        context = await running.browser.new_context(**settings | spec.options)
        try:
            # granting nothing refuses everything, so that no prompt waits for an answer
            await context.grant_permissions([])
            await context.add_init_script(page_script())
        except BaseException:
            await finish(_discard(context))
            raise
    return context


async def _close_context(context: BrowserContext) -> bool:
    """Close it; whether that worked in time."""
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await context.close()
    except Exception:
        return False
    return True


async def _discard(context: BrowserContext) -> None:
    await _close_context(context)


def _unstartable(error: Exception) -> Exception:
    if isinstance(error, ConfigurationError):
        return error
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return EnvironmentFailure(
        f"the browser does not start: {lines[0]}",
        phase="reset",
        next="try `chromium-headless-shell --version` by hand",
    )


# A browser costs 220 MB, a context 28: the environments of a worker must find each other's.
_HOSTS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Network, BrowserHost]] = (
    WeakKeyDictionary()
)
