"""Downloads of an episode: kept in its directory, bounded in size and number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

MAX_FILES = 16
MAX_BYTES = 32 << 20
"""Of one file."""
DEADLINE_S = 5
DETACH_DEADLINE_S = 1
_UNSAFE = re.compile(r"[^\w.,()+\- ]+")


class Downloads:
    """Keeps what pages offer for download.

    The browser is told to write into this episode's directory and to say how far it is; neither
    is asked of Playwright, which knows no size before a download has ended.

    Args:
        directory: made at once; holds the files under their own names.
        note: told what was saved or refused.
        own: runs a coroutine beside the steps.
        begun: told that a download begins: the page that offers it stays.

    Attributes:
        directory: where the files are.
    """

    def __init__(
        self,
        directory: Path,
        note: Callable[[str], None],
        own: Callable[[Coroutine[Any, Any, None]], None],
        begun: Callable[[], None],
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._note, self._own, self._told = note, own, begun
        self._partial = directory.parent / "partial"
        self._names: dict[str, str] = {}
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._context_id = ""
        self._session: CDPSession | None = None

    async def begin(self, context: BrowserContext, page: Page, session: CDPSession) -> None:
        """Direct the context's downloads here.

        Args:
            context: of the episode.
            page: any of its tabs.
            session: of that tab.
        """
        assert context.browser is not None
        info = await session.send("Target.getTargetInfo")
        self._context_id = info["targetInfo"]["browserContextId"]
        browser = self._session = await context.browser.new_browser_cdp_session()
        browser.on("Browser.downloadWillBegin", self._begun)
        browser.on("Browser.downloadProgress", self._moved)
        settings = {
            "behavior": "allowAndName",
            "browserContextId": self._context_id,
            "downloadPath": str(self._partial),
            "eventsEnabled": True,
        }
        await browser.send("Browser.setDownloadBehavior", settings)

    async def settled(self, limit_s: float) -> None:
        """Wait until nothing is being downloaded, at most so long."""
        try:
            async with asyncio.timeout(limit_s):
                await self._idle.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Listen no more."""
        session, self._session = self._session, None
        if session is not None:
            try:
                async with asyncio.timeout(DETACH_DEADLINE_S):
                    await session.detach()
            except Exception:
                # a browser that is gone or hangs tells nothing more anyway
                return

    def _begun(self, event: dict[str, Any]) -> None:
        guid, name = event["guid"], safe_name(event["suggestedFilename"])
        self._count += 1
        self._told()
        if self._count > MAX_FILES:
            self._refuse(guid, name, f"{MAX_FILES} files were downloaded already")
            return
        self._names[guid] = name
        self._idle.clear()

    def _moved(self, event: dict[str, Any]) -> None:
        guid, state = event["guid"], event["state"]
        if guid not in self._names:
            return
        size = int(max(event["receivedBytes"], event["totalBytes"]))
        if state == "completed" and size <= MAX_BYTES:
            self._keep(guid, self._ended(guid))
        elif size > MAX_BYTES:
            self._refuse(guid, self._ended(guid), f"it is over {MAX_BYTES >> 20} MB")
        elif state == "canceled":
            self._note(f"Download of {self._ended(guid)!r} failed.")

    def _keep(self, guid: str, name: str) -> None:
        path = _free(self.directory / name)
        try:
            size = (self._partial / guid).stat().st_size
            (self._partial / guid).rename(path)
        except OSError:
            self._note(f"Download of {name!r} failed.")
        else:
            self._note(f"Downloaded {path.name!r} ({size} bytes).")

    def _refuse(self, guid: str, name: str, reason: str) -> None:
        self._note(f"Download of {name!r} refused: {reason}.")
        self._own(self._cancel(guid))

    def _ended(self, guid: str) -> str:
        name = self._names.pop(guid)
        if not self._names:
            self._idle.set()
        return name

    async def _cancel(self, guid: str) -> None:
        if self._session is not None:
            async with asyncio.timeout(DEADLINE_S):
                await self._session.send(
                    "Browser.cancelDownload", {"guid": guid, "browserContextId": self._context_id}
                )
        (self._partial / guid).unlink(missing_ok=True)


def safe_name(name: str) -> str:
    """A file name without folders and control characters.

    Example:
        >>> safe_name("../../etc/pass<wd>")
        'pass_wd_'
    """
    bare = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    return bare[-120:] or "download"


def _free(path: Path) -> Path:
    """The path, or one with a number when it is taken."""
    number, chosen = 1, path
    while chosen.exists():
        chosen = path.with_stem(f"{path.stem} ({number})")
        number += 1
    return chosen
