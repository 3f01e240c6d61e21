"""The client's end of one WebSocket of the stream: its handshake, its messages, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from typing import Protocol as Interface

from websockets.client import ClientProtocol
from websockets.http11 import Request, Response
from websockets.uri import parse_uri

from mintact_platform.environments.client.connection import tls
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.websocket import Data, WebSocket

_MAX_MESSAGE = 2 * wire.MAX_MESSAGE


class StreamRefused(Exception):
    """There is no stream to be had: not our server, a proxy in between, or not for us.

    Attributes:
        status: HTTP status of the refusal, 0 for none.
        error: the server's own words, None where it is not our server's.
    """

    def __init__(self, reason: str, status: int = 0, error: wire.ErrorBody | None = None) -> None:
        super().__init__(reason)
        self.status, self.error = status, error


class Owner(Interface):
    """Who uses a channel."""

    def received(self, data: Data) -> None:
        """A message came."""
        ...

    def lost(self, channel: Channel) -> None:
        """Nothing comes or goes any more."""
        ...

    def drained(self) -> None:
        """Writing may go on."""
        ...


class Channel(WebSocket):
    """A connection to a server's stream.

    Args:
        url: of the server, `http:` or `https:`.
        headers: of the handshake.
        owner: told what happens.

    Attributes:
        pinged_at: moment of the last ping, on the loop's clock.
        replied: whether any message ever came.
    """

    def __init__(self, url: str, headers: Mapping[str, str], owner: Owner) -> None:
        uri = parse_uri("ws" + url.removeprefix("http") + "/v1/stream")
        self._protocol = ClientProtocol(uri, max_size=_MAX_MESSAGE)
        super().__init__(self._protocol)
        self._headers = headers
        self._owner = owner
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self.pinged_at = 0.0
        self.replied = False

    @classmethod
    async def open(cls, url: str, headers: Mapping[str, str], owner: Owner) -> Channel:
        """Connect and shake hands.

        Raises:
            StreamRefused: the other side answered otherwise.
            OSError: nobody listens, or the connection broke.
        """
        channel = cls(url, headers, owner)
        uri = channel._protocol.uri
        secure: dict[str, Any] = {"ssl": tls(True)} if uri.secure else {}
        await channel._loop.create_connection(lambda: channel, uri.host, uri.port, **secure)
        try:
            await channel._opened
        except BaseException:
            await channel.close(at_once=True)
            raise
        return channel

    async def close(self, *, at_once: bool = False) -> None:
        """Close, and wait until the socket is gone: at most a second."""
        (self.abort if at_once else self.shut)()
        await asyncio.wait([self._gone])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        super().connection_made(transport)
        request = self._protocol.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._transmit()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the owner."""
        super().connection_lost(error)
        self._gone.set_result(None)
        if self._opened.done():
            self._owner.lost(self)
        else:
            self._opened.set_exception(ConnectionResetError("closed during the handshake"))
            self._opened.exception()  # seen, also where opening was cancelled meanwhile

    def handshake(self, event: Request | Response) -> None:
        """The server's answer to the upgrade."""
        assert isinstance(event, Response)
        if self._opened.done():
            return
        if self._protocol.handshake_exc is None:
            self._opened.set_result(None)
        else:
            reason = f"HTTP {event.status_code}"
            self._opened.set_exception(StreamRefused(reason, event.status_code, _error(event)))

    def message(self, data: Data) -> None:
        """Replies."""
        self.replied = True
        self._owner.received(data)

    def drained(self) -> None:
        """Writing may go on."""
        self._owner.drained()


def _error(response: Response) -> wire.ErrorBody | None:
    """The error body of formats.md, where the answer is one."""
    if "Mintact-Protocol" not in response.headers:
        return None
    try:
        media = response.headers.get("Content-Type", "")
        return wire.ErrorBody.unpack(wire.loads(bytes(response.body or b""), media))
    except wire.WireError:
        return None
