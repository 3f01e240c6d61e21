"""A screenshot of a page that came to rest, or of one that does not, after a limit."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

from mintact_env_web.browser.lifetime import unless

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

FrameFormat = Literal["jpeg", "png"]

QUALITY = 80
LOAD_LIMIT_S = 8.0
"""How long a document may load before it is photographed as it is."""
CALL_DEADLINE_S = 8.0
"""A page that does not answer one question in this time does not answer at all."""
CAPTURE_DEADLINE_S = 6.0
CAPTURES_AT_ONCE = 4
"""Of one browser. More do not make it faster: on a busy machine all of them become late, and what
is given up and asked again makes them later still."""
TURN_DEADLINE_S = 4.0
"""After so long a picture is taken out of turn: pages that hang keep theirs for some seconds."""
_POLL_S = 0.01
_PULSE = "window[Symbol.for('mintact')]?.pulse()"


class View(Protocol):
    """The tab that is photographed: the screen."""

    @property
    def moved(self) -> asyncio.Future[None]:
        """Done when the tab's document is replaced; then there is a new one."""
        ...

    @property
    def clock(self) -> PageClock:
        """Dates what the tab's documents say."""
        ...

    async def session(self) -> CDPSession:
        """Debugging session of the current tab; another one when that has changed."""
        ...

    def pulse_seen(self, pulse: Pulse) -> None:
        """Told every pulse."""
        ...


@dataclass(frozen=True)
class Pulse:
    """How busy a page is.

    Attributes:
        loading: a document is being loaded or left.
        busy: requests, short timers, images or fonts are outstanding.
        painted_s: since it last drew by script; 0 while it goes on, and for parts that cannot be
            asked.
        quiet_s: since its last change.
        copied: text that was put on the clipboard, None for none.
        at: when it was told, seconds by our clock; not earlier, and as little later as is known.
    """

    loading: bool
    busy: bool
    painted_s: float
    quiet_s: float
    copied: str | None
    at: float = math.inf


_UNKNOWN = Pulse(True, False, 0.0, 0.0, None)
"""Between two documents nobody answers."""


class PageClock:
    """What a document's clock shows by ours.

    An answer comes some time after it was given, and nobody knows how long. A document's fastest
    answer says most, and dates all others: a change shortly before a picture is told from one
    after it, and the picture need not be taken again.
    """

    def __init__(self) -> None:
        self._document: float | None = None
        self._behind = math.inf

    def date(self, document: float, shown: float, received: float) -> float:
        """The latest moment by our clock at which the document's clock can have shown this.

        Args:
            document: tells documents apart, each of which has a clock of its own.
            shown: seconds.
            received: when the answer came, seconds by our clock.
        """
        if document != self._document:
            self._document, self._behind = document, math.inf
        self._behind = min(self._behind, received - shown)
        return shown + self._behind


async def still_frame(
    view: View,
    image_format: FrameFormat,
    limit_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """The encoded viewport of a page at rest.

    First the picture, then the question whether anything has moved since before it was taken: a
    page at rest costs one screenshot and one short evaluation. While the page is busy it is asked
    until it is not. A page that draws without saying what has to give the same picture twice.

    Args:
        view: the current tab.
        image_format: `jpeg` of quality 80, or `png`.
        limit_s: for a loaded page to come to rest.
        clock: monotonic seconds.

    Raises:
        TimeoutError: the page does not answer.
    """
    start = clock()
    last: bytes | None = None
    while True:
        async with _turn():
            asked = clock()
            frame = await _capture(view, image_format)
        pulse = await _pulse(view)
        since = min(pulse.at, clock()) - asked
        if frame and _rests(pulse, since) and (pulse.painted_s >= since or frame == last):
            return frame
        last = frame or last
        while _waits(pulse, clock() - start, limit_s):
            await asyncio.sleep(_POLL_S)
            pulse = await _pulse(view)
        if clock() - start >= _limit(pulse, limit_s):
            return await _last_capture(view, image_format)


async def _pulse(view: View) -> Pulse:
    """Ask the page how busy it is."""
    pulse = await read_pulse(view)
    view.pulse_seen(pulse)
    return pulse


async def read_pulse(view: View) -> Pulse:
    """How busy the page is.

    Raises:
        TimeoutError: it does not answer.
    """
    reply = await _ask(view, "Runtime.evaluate", {"expression": _PULSE, "returnByValue": True})
    if reply is None:
        return _UNKNOWN
    value = reply["result"].get("value")
    if not isinstance(value, list):
        return Pulse(False, False, 0.0, 60.0, None) if "value" in reply["result"] else _UNKNOWN
    loading, busy, painted_ms, quiet_ms, copied, now_ms, document = value
    at = view.clock.date(document, now_ms / 1000, time.monotonic())
    return Pulse(loading, busy, painted_ms / 1000, quiet_ms / 1000, copied, at)


def _rests(pulse: Pulse, since: float) -> bool:
    return not pulse.loading and not pulse.busy and pulse.quiet_s >= since


def _waits(pulse: Pulse, elapsed: float, limit_s: float) -> bool:
    return (pulse.loading or pulse.busy) and elapsed < _limit(pulse, limit_s)


def _limit(pulse: Pulse, limit_s: float) -> float:
    return max(limit_s, LOAD_LIMIT_S) if pulse.loading else limit_s


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Wait until fewer pictures are being taken, but not for long."""
    loop = asyncio.get_running_loop()
    turns = _TURNS.setdefault(loop, asyncio.Semaphore(CAPTURES_AT_ONCE))
    held = False
    try:
        async with asyncio.timeout(TURN_DEADLINE_S):
            held = await turns.acquire()
    except TimeoutError:
        pass
    try:
        yield
    finally:
        if held:
            turns.release()


async def _last_capture(view: View, image_format: FrameFormat) -> bytes:
    """The page as it is now."""
    async with asyncio.timeout(CALL_DEADLINE_S):
        while True:
            frame = await _capture(view, image_format)
            if frame:
                return frame
            await asyncio.sleep(_POLL_S)


async def _capture(view: View, image_format: FrameFormat) -> bytes | None:
    """The encoded viewport, None between two documents."""
    wanted: dict[str, Any] = {"format": image_format}
    if image_format == "jpeg":
        wanted["quality"] = QUALITY
    else:
        wanted["optimizeForSpeed"] = True
    try:
        shot = await _ask(view, "Page.captureScreenshot", wanted, CAPTURE_DEADLINE_S)
    except TimeoutError:
        # now and then the browser loses the question while the page is well: the page is asked
        # next, and if it answers, once more for its picture
        return None
    return None if shot is None else base64.b64decode(shot["data"])


async def _ask(
    view: View, method: str, params: dict[str, Any], deadline_s: float | None = None
) -> dict[str, Any] | None:
    """The page's answer, None when its document was replaced meanwhile.

    A page that moves to another process forgets what it was asked.

    Raises:
        TimeoutError: there is no answer in time.
    """
    try:
        async with asyncio.timeout(deadline_s or CALL_DEADLINE_S):
            session = await view.session()
            return await unless(view.moved, session.send(method, params))
    except TimeoutError:
        raise
    except Exception as error:
        if type(error).__name__ == "TargetClosedError" or "crashed" in str(error):
            raise
        return None


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
