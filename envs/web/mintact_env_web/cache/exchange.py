"""What passes between a browser and a site: requests, responses, and the frames of sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Headers = tuple[tuple[str, str], ...]
"""Names in lower case, in order, repeated where the site repeated them."""


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        method: in capitals.
        url: absolute.
        headers: by name in lower case.
        body: None for none.
        kind: what it is for, in Chromium's words in lower case: `document`, `script`, `ping`, …
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    kind: str = "other"

    @property
    def endpoint(self) -> str:
        """`METHOD host/path`: what stays the same while parameters change."""
        parts = urlsplit(self.url)
        return f"{self.method} {parts.netloc.lower()}{parts.path or '/'}"


@dataclass(frozen=True)
class Response:
    """A response; its body is stored decoded, under its hash.

    Attributes:
        status: of HTTP.
        headers: see `Headers`.
        body: name of the stored body, None for none.
    """

    status: int
    headers: Headers = ()
    body: str | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def redirect(self) -> str | None:
        """Where it sends the browser, as written; None when nowhere."""
        return self.header("location") if self.status in (301, 302, 303, 307, 308) else None


@dataclass(frozen=True)
class Entry:
    """A request and what came of it.

    Attributes:
        request: as it left the browser.
        response: None when there was none.
        visit: number of the visit, from 0.
        time_s: of the request, seconds since the visit began.
        error: why there is no response.
    """

    request: Request
    response: Response | None
    visit: int = 0
    time_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Frame:
    """A message on a socket.

    Attributes:
        sent: by the page; else by the site.
        data: text or bytes.
    """

    sent: bool
    data: str | bytes


@dataclass(frozen=True)
class Socket:
    """A WebSocket and its messages in order.

    Attributes:
        url: as the page opened it.
        frames: of both sides.
        closed: whether the site ended it.
        visit: number of the visit, from 0.
    """

    url: str
    frames: tuple[Frame, ...] = ()
    closed: bool = False
    visit: int = 0
