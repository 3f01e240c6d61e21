"""Records what a browser exchanges with sites: every request of every page, frame and worker.

The browser itself asks the network; each response is held until its body has been read, so that
no page can leave it behind.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import defaultdict, deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mintact_env_web.cache.exchange import Entry, Frame, Headers, Request, Response, Socket
from mintact_env_web.cache.store import Bodies
from mintact_platform.processes import finish

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, WebSocket
    from playwright.async_api import Response as BrowserResponse

CALL_DEADLINE_S = 20
BODY_DEADLINE_S = 20
"""A response that goes on for longer is let through without its body."""
FINISH_DEADLINE_S = 10
MAX_BODY = 64 << 20
_REDIRECTS = (301, 302, 303, 307, 308)
_ENDLESS = ("text/event-stream", "multipart/x-mixed-replace")
_STAGES = [{"urlPattern": "http*", "requestStage": stage} for stage in ("Request", "Response")]
_SILENT_STREAM = b"retry: 86400000\n\n"


class _Left(Exception):
    """The page left before it had the response: half a body would be worse than none."""


@dataclass
class _Exchange:
    """An entry in the making."""

    request: Request
    time_s: float
    response: Response | None = None
    error: str | None = None
    cookies: tuple[str, ...] = ()
    done: bool = False


class Recorder:
    """Records one visit. The browser must be the recorder's alone: it sees all its contexts.

    Args:
        bodies: where bodies are stored.
        visit: number of the visit, from 0.
    """

    def __init__(self, bodies: Bodies, visit: int = 0) -> None:
        self._bodies, self._visit = bodies, visit
        self._begun = time.monotonic()
        self._exchanges: dict[str, _Exchange] = {}
        self._without_cookies: dict[tuple[str, str], deque[_Exchange]] = defaultdict(deque)
        self._sockets: list[tuple[str, list[Frame], list[bool]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: CDPSession | None = None

    async def begin(self, context: BrowserContext) -> None:
        """Record from now on."""
        browser = context.browser
        assert browser is not None
        self._begun = time.monotonic()
        async with asyncio.timeout(CALL_DEADLINE_S):
            self._session = await browser.new_browser_cdp_session()
            self._session.on("Fetch.requestPaused", lambda event: self._own(self._paused(event)))
            await self._session.send("Fetch.enable", {"patterns": _STAGES})
        context.on("response", lambda response: self._own(self._add_cookies(response)))
        context.on("page", self._page_opened)
        for page in context.pages:
            self._page_opened(page)

    async def end(self) -> tuple[list[Entry], list[Socket]]:
        """Stop; what was recorded, in the order of the requests."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_DEADLINE_S)
        await finish(self._stop())
        entries = [
            Entry(e.request, _with_cookies(e), self._visit, e.time_s, e.error)
            for e in self._exchanges.values()
            if e.done and e.error != "Aborted"
        ]
        sockets = [
            Socket(url, tuple(frames), bool(closed), self._visit)
            for url, frames, closed in self._sockets
        ]
        return entries, sockets

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            try:
                async with asyncio.timeout(CALL_DEADLINE_S):
                    await session.detach()
            except Exception:
                # a browser that is gone records nothing any more
                return

    # ---- requests ------------------------------------------------------------------------------

    async def _paused(self, event: Mapping[str, Any]) -> None:
        number = event["requestId"]
        try:
            if "responseStatusCode" in event or "responseErrorReason" in event:
                await self._responded(event)
            else:
                self._requested(number, event)
        finally:
            await self._send("Fetch.continueRequest", {"requestId": number})

    def _requested(self, number: str, event: Mapping[str, Any]) -> _Exchange:
        exchange = _Exchange(_read_request(event), time.monotonic() - self._begun)
        self._exchanges[number] = exchange
        return exchange

    async def _responded(self, event: Mapping[str, Any]) -> None:
        number = event["requestId"]
        exchange = self._exchanges.get(number) or self._requested(number, event)
        exchange.error = event.get("responseErrorReason")
        if exchange.error is None:
            headers = _read_headers(event.get("responseHeaders", ()))
            status = event["responseStatusCode"]
            try:
                body = None if status in _REDIRECTS else await self._read_body(number, headers)
            except _Left:
                return
            exchange.response = Response(status, headers, body)
            request = exchange.request
            self._without_cookies[request.method, request.url].append(exchange)
        exchange.done = True

    async def _read_body(self, number: str, headers: Headers) -> str | None:
        kind = next((value for name, value in headers if name == "content-type"), "")
        if kind.startswith(_ENDLESS):
            return self._bodies.put(_SILENT_STREAM)
        try:
            async with asyncio.timeout(BODY_DEADLINE_S):
                reply = await self._send("Fetch.getResponseBody", {"requestId": number})
        except TimeoutError:
            return None
        if reply is None:
            raise _Left
        text = reply["body"]
        body = base64.b64decode(text) if reply["base64Encoded"] else text.encode()
        if not body or len(body) > MAX_BODY:
            return None
        return await asyncio.to_thread(self._bodies.put, body)

    async def _add_cookies(self, response: BrowserResponse) -> None:
        """Set cookies, which the browser keeps from those who hold its responses."""
        request = response.request
        values = await response.header_values("set-cookie")
        waiting = self._without_cookies[request.method, request.url.partition("#")[0]]
        if waiting:
            waiting.popleft().cookies = tuple(values)

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The browser's reply, None when the request is gone."""
        if self._session is None:
            return None
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                reply: dict[str, Any] = await self._session.send(method, params)
                return reply
        except TimeoutError:
            raise
        except Exception:
            # cancelled by its page meanwhile
            return None

    # ---- sockets -------------------------------------------------------------------------------

    def _page_opened(self, page: Page) -> None:
        page.on("websocket", self._socket_opened)

    def _socket_opened(self, socket: WebSocket) -> None:
        frames: list[Frame] = []
        closed: list[bool] = []
        self._sockets.append((socket.url, frames, closed))
        socket.on("framesent", lambda data: frames.append(Frame(True, data)))
        socket.on("framereceived", lambda data: frames.append(Frame(False, data)))
        socket.on("close", lambda _: closed.append(True))

    # ---- tasks ---------------------------------------------------------------------------------

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # one exchange that cannot be recorded is missed in the replay, and reported there
            task.exception()


def _read_request(event: Mapping[str, Any]) -> Request:
    asked = event["request"]
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    kind = str(event.get("resourceType", "other")).lower()
    url = asked["url"].partition("#")[0]
    return Request(asked["method"], url, headers, _read_post(asked), kind)


def _read_post(asked: Mapping[str, Any]) -> bytes | None:
    parts = asked.get("postDataEntries")
    if parts:
        return b"".join(base64.b64decode(part.get("bytes", "")) for part in parts)
    text = asked.get("postData")
    return None if text is None else str(text).encode()


def _read_headers(headers: Any) -> Headers:
    return tuple((header["name"].lower(), header["value"]) for header in headers)


def _with_cookies(exchange: _Exchange) -> Response | None:
    response = exchange.response
    if response is None or not exchange.cookies:
        return response
    if response.header("set-cookie") is not None:
        return response
    cookies = tuple(("set-cookie", value) for value in exchange.cookies)
    return replace(response, headers=response.headers + cookies)
