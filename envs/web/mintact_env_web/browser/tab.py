"""The screen of an episode: the tab that is shown, and everything that happens around it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mintact_env_web.browser.dialogs import Dialogs
from mintact_env_web.browser.downloads import Downloads
from mintact_env_web.browser.frames import FrameFormat, PageClock, Pulse, still_frame
from mintact_env_web.browser.guard import refusal
from mintact_env_web.browser.lifetime import unless
from mintact_platform.errors import EnvironmentFailure

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, FileChooser, Frame, Page

T = TypeVar("T")

MAX_TABS = 8
MAX_OPENED = 64
"""Tabs that pages may open in one episode, the refused ones included."""
MAX_NOTES = 20
MAX_NOTE = 500
GOTO_DEADLINE_S = 20
OPEN_DEADLINE_S = 20
TAB_DEADLINE_S = 5


class Screen:
    """The tabs of one context, as the agent sees them: one at a time.

    The current tab is the one a page opened last; when it closes, the one it was opened from is
    current again. Dialogs are accepted, file choosers wait for an upload that may never come,
    downloads are kept, further tabs beyond `MAX_TABS` are closed at once. What a screenshot
    cannot show of this is told in notes.

    Args:
        context: of the episode.
        files: directory of the episode: `downloads/` and `uploads/` lie below it.
        size: width and height in pixels.

    Attributes:
        context: of the episode.
        dialogs: policy and count.
        downloads: what was saved.
        chooser: file chooser that waits for a file, None for none.
        quiet_chooser: an upload is under way, and the agent need not be told to do one.
        clipboard: what was copied last in this episode.
        failure: why no further step can work, None while all is well.
        moved: done when the current tab's document is replaced; then there is a new one.
        clock: dates what the tab's documents say.
        last_frame: the encoded screenshot that the agent saw last.
        start_url: where the episode began.
    """

    def __init__(self, context: BrowserContext, *, files: Path, size: tuple[int, int]) -> None:
        self.context = context
        self.size = size
        self.dialogs = Dialogs(self)
        self.uploads = files / "uploads"
        self.uploads.mkdir(parents=True, exist_ok=True)
        self.downloads = Downloads(files / "downloads", self.note, self.own, self._stay)
        self.chooser: FileChooser | None = None
        self.quiet_chooser = False
        self.clipboard = ""
        self.failure: str | None = None
        self.clock = PageClock()
        self.last_frame = b""
        self.moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.start_url = "about:blank"
        self._tabs: list[Page] = []
        self._current: Page | None = None
        self._openers: dict[Page, Page | None] = {}
        self._opened = 0
        self._sessions: dict[Page, CDPSession] = {}
        self._notes: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, context: BrowserContext, *, files: Path, size: tuple[int, int] = (1280, 720)
    ) -> Screen:
        """The context with its first tab, blank."""
        screen = cls(context, files=files, size=size)
        context.on("page", screen._page_opened)
        if context.browser is not None:
            context.browser.on("disconnected", screen._browser_died)
        async with asyncio.timeout(OPEN_DEADLINE_S):
            await screen.unless_failed(screen._begin())
        return screen

    @property
    def page(self) -> Page:
        """The current tab.

        Raises:
            EnvironmentFailure: all tabs are gone, or a page's process died.
        """
        if self.failure is not None:
            raise EnvironmentFailure(self.failure, phase="step", kind="crash")
        if self._current is None:
            raise EnvironmentFailure("the page closed itself", phase="step", kind="crash")
        return self._current

    @property
    def tabs(self) -> Sequence[Page]:
        """All open tabs in the order of opening."""
        return tuple(self._tabs)

    def note(self, text: str) -> None:
        """Say something in the next observation's text."""
        if len(self._notes) < MAX_NOTES:
            line = text if len(text) <= MAX_NOTE else f"{text[:MAX_NOTE]}…"
            self._notes.append(line)

    def take_notes(self) -> list[str]:
        """What was noted since the last time."""
        notes, self._notes = self._notes, []
        return notes

    def begin_step(self) -> None:
        """A new action: counts that are kept per action start again."""
        self.dialogs.begin_step()

    async def goto(self, url: str) -> None:
        """Load the start page.

        Raises:
            EnvironmentFailure: refused, unreachable, or an error of the server.
        """
        reason = refusal(url)
        if reason is not None:
            raise EnvironmentFailure(reason, phase="reset", kind="refused", retryable=False)
        self.start_url = url
        response = await self.page.goto(
            url, wait_until="domcontentloaded", timeout=GOTO_DEADLINE_S * 1000
        )
        if response is not None and response.status >= 500:
            raise EnvironmentFailure(
                f"the site answers with status {response.status}", phase="reset", kind="site"
            )

    async def capture(self, image_format: FrameFormat = "jpeg", limit_s: float = 2.0) -> bytes:
        """The encoded screenshot of the current tab at rest; see `still_frame`.

        Raises:
            EnvironmentFailure: the page died, floods with dialogs, or went where it may not.
            TimeoutError: it does not answer.
        """
        frame = await self.unless_failed(self._still(image_format, limit_s))
        if await self._leave_refused():
            frame = await self.unless_failed(self._still(image_format, limit_s))
        await self.downloads.settled(limit_s)
        self.last_frame = frame
        return frame

    async def _begin(self) -> None:
        self._adopt(await self.context.new_page())
        await self.downloads.begin(self.context, self.page, await self.session())

    async def session(self) -> CDPSession:
        """The debugging session of the current tab."""
        page = self.page
        if page not in self._sessions:
            async with asyncio.timeout(TAB_DEADLINE_S):
                self._sessions[page] = await self.context.new_cdp_session(page)
        return self._sessions[page]

    def pulse_seen(self, pulse: Pulse) -> None:
        """Keep what a page put on the clipboard."""
        if pulse.copied:
            self.clipboard = pulse.copied

    async def unless_failed(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work on the page; a death that is seen meanwhile ends the wait.

        Raises:
            EnvironmentFailure: the page's process or the browser died, or dialogs have no end.
        """
        result = await unless(self._failed, work)
        if self.failure is not None:
            raise EnvironmentFailure(self.failure, phase="step", kind="crash")
        return cast("T", result)

    def show(self, page: Page) -> None:
        """Make a tab the current one."""
        self._current = page

    async def new_tab(self) -> None:
        """Open another tab on the start page and show it."""
        async with asyncio.timeout(TAB_DEADLINE_S):
            page = await self.context.new_page()
        self._adopt(page)
        await page.goto(self.start_url, wait_until="commit", timeout=GOTO_DEADLINE_S * 1000)

    def may_open(self) -> bool:
        """Whether there is room for another tab."""
        return len(self._tabs) < MAX_TABS

    async def choosing(self, limit_s: float) -> None:
        """Wait for a file chooser to open, at most so long."""
        try:
            async with asyncio.timeout(limit_s):
                while self.chooser is None:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return

    async def close_tab(self) -> None:
        """Close the current tab; the one it came from is shown."""
        await _close(self.page)

    def fail(self, reason: str) -> None:
        """No further step can work; the first reason counts."""
        self.failure = self.failure or reason
        if not self._failed.done():
            self._failed.set_result(None)

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside the steps; ended by `close`."""
        if self._closing:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End what runs beside the steps. The context is its host's to close."""
        self._closing = True
        if self.context.browser is not None:
            self.context.browser.remove_listener("disconnected", self._browser_died)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.failure is None:
            await self.downloads.close()
        if not self._failed.done():
            self._failed.cancel()

    # ---- what happens --------------------------------------------------------------------------

    def _page_opened(self, page: Page) -> None:
        if page in self._tabs or self._closing:
            return
        self._opened += 1
        self._tell("came")
        if self._opened > MAX_OPENED:
            self.fail("the page opens tabs without end")
        if len(self._tabs) >= MAX_TABS:
            self.note(f"A further tab was refused: {MAX_TABS} are open.")
            self.own(_close(page))
            return
        self._adopt(page)
        if len(self._tabs) > 1:
            self.own(self._fit(page))

    def _adopt(self, page: Page) -> None:
        """Follow a tab and show it."""
        if page in self._tabs or page.is_closed():
            return
        self._openers[page] = self._current
        self._tabs.append(page)
        self._current = page
        page.on("close", self._page_closed)
        page.on("crash", lambda _: self.fail("the page's process died"))
        page.on("dialog", self.dialogs.answer)
        page.on("filechooser", self._file_chooser)
        page.on("framenavigated", self._navigated)

    async def _fit(self, page: Page) -> None:
        """A pop-up comes in the size its page chose; the agent's screen has one size."""
        width, height = self.size
        if page.viewport_size != {"width": width, "height": height}:
            async with asyncio.timeout(TAB_DEADLINE_S):
                await page.set_viewport_size({"width": width, "height": height})

    def _page_closed(self, page: Page) -> None:
        if page in self._tabs:
            self._tabs.remove(page)
        self._sessions.pop(page, None)
        opener = self._openers.pop(page, None)
        if self._current is page:
            self._current = opener if opener in self._tabs else None
            if self._current is None and self._tabs:
                self._current = self._tabs[-1]

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None and not self.moved.done():
            self.moved.set_result(None)
            self.moved = asyncio.get_running_loop().create_future()

    def _browser_died(self, _: object) -> None:
        self.fail("the browser died")

    def _file_chooser(self, chooser: FileChooser) -> None:
        self.chooser = chooser
        self._tell("came")
        if self.quiet_chooser:
            return
        offered = ", ".join(self.files()) or "none"
        self.note(f"The page asks for a file; files at hand: {offered}.")

    def files(self) -> dict[str, Path]:
        """Files that may be uploaded, by name: given ones, then downloads."""
        folders = (self.downloads.directory, self.uploads)
        return {
            path.name: path
            for folder in folders
            if folder.is_dir()
            for path in sorted(folder.iterdir())
            if path.is_file()
        }

    async def _still(self, image_format: FrameFormat, limit_s: float) -> bytes:
        while True:
            shown = self.page
            try:
                frame = await still_frame(self, image_format, limit_s)
                if self._current is shown:
                    return frame
            except Exception:
                # the tab may have closed meanwhile; then another one is shown
                if self._current in (shown, None):
                    raise

    def _stay(self) -> None:
        """The page began to leave and stays, because a download came of it."""
        self._tell("stay")

    def _tell(self, news: str) -> None:
        """Let the current tab's pulse know what is seen only from here."""
        session = None if self._current is None else self._sessions.get(self._current)
        if session is not None and self.failure is None:
            self.own(_evaluate(session, f"window[Symbol.for('mintact')]?.{news}()"))

    async def _leave_refused(self) -> bool:
        """Whether the current tab showed what no tab may show; it is back at the start page."""
        reason = refusal(self.page.url)
        if reason is None:
            return False
        self.note(f"The page was not opened: {reason}.")
        await self.page.goto(
            self.start_url, wait_until="domcontentloaded", timeout=GOTO_DEADLINE_S * 1000
        )
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # what runs beside is a courtesy: a page that closes meanwhile breaks it
            task.exception()


async def _close(page: Page) -> None:
    async with asyncio.timeout(TAB_DEADLINE_S):
        await page.close()


async def _evaluate(session: CDPSession, expression: str) -> None:
    async with asyncio.timeout(TAB_DEADLINE_S):
        await session.send("Runtime.evaluate", {"expression": expression})
