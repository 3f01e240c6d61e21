"""How a lease's calls travel: in batches over the stream all leases share, or each over HTTP."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlencode

from mintact_platform.environments.client.address import address_of
from mintact_platform.environments.client.channel import StreamRefused
from mintact_platform.environments.client.connection import Connection, failure_of
from mintact_platform.environments.client.multiplex import SharedStream
from mintact_platform.environments.protocol import wire
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

TransportName: TypeAlias = Literal["auto", "stream", "http"]
"""`auto` prefers the stream and falls back to HTTP."""

_log = logging.getLogger(__name__)
_ROUTES = {
    "create": ("POST", "/v1/leases"),
    "reset": ("POST", "/v1/leases/{lease}/reset"),
    "step": ("POST", "/v1/leases/{lease}/step"),
    "evaluate": ("POST", "/v1/leases/{lease}/evaluate"),
    "release": ("DELETE", "/v1/leases/{lease}"),
    "cancel": ("DELETE", "/v1/leases"),
    "heartbeat": ("POST", "/v1/heartbeat"),
}


class Transport(Protocol):
    """Carries the calls of one lease to its server.

    Attributes:
        url: of the server.
    """

    url: str

    async def call(
        self,
        do: str,
        body: dict[str, Any],
        deadline: float,
        *,
        lease: str = "",
        token: str = "",
    ) -> dict[str, Any]:
        """Ask the server to do something; a lost reply is asked for again inside the deadline.

        Args:
            do: `create`, `reset`, `step`, `evaluate`, `release`, `cancel` or `heartbeat`.
            body: of the message, the transport's from now on.
            deadline: seconds.
            lease: its name, "" for a call about none.
            token: its fencing token.

        Raises:
            EnvironmentFailure: typed; kind `timeout` once the deadline passed.
            ConfigurationError: the request is wrong.
            WireError: the body holds what no message can carry.
        """
        ...

    async def close(self) -> None:
        """Give back the connection, or one's part in it."""
        ...


def open_transport(url: str, bearer: str | None, name: TransportName) -> Transport:
    """The way to a server; nothing is connected before the first call.

    Args:
        url: of the server.
        bearer: its token, if it wants one.
        name: which way.
    """
    if name == "http":
        return HttpTransport(url, bearer)
    return StreamTransport(url, bearer, may_fall_back=name == "auto")


async def cancel(transport: Transport, key: str, deadline: float = 10.0) -> None:
    """Give back whatever lease this key made or is about to make."""
    try:
        await transport.call("cancel", {"key": key}, deadline)
    except (EnvironmentFailure, ConfigurationError):
        pass  # unreachable: the lease ends by its time to live


class HttpTransport:
    """Each call an HTTP request, over a connection that serves no other lease."""

    def __init__(self, url: str, bearer: str | None = None) -> None:
        self._connection = Connection(url, bearer)
        self.url = self._connection.url

    async def call(
        self,
        do: str,
        body: dict[str, Any],
        deadline: float,
        *,
        lease: str = "",
        token: str = "",
    ) -> dict[str, Any]:
        """See `Transport.call`."""
        method, path = _ROUTES[do]
        path = path.format(lease=lease)
        content: Mapping[str, Any] | None = body if method == "POST" else None
        if method == "DELETE" and body:
            path = f"{path}?{urlencode(body)}"
        phase = wire.PHASES[do]
        return await self._connection.request(phase, method, path, content, deadline, token=token)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


class StreamTransport:
    """A part in the one stream between this process and a server.

    Args:
        url: of the server.
        bearer: its token, if it wants one.
        may_fall_back: use HTTP when the server, or a proxy before it, has no stream.
    """

    def __init__(self, url: str, bearer: str | None, *, may_fall_back: bool) -> None:
        self.url = address_of(url)
        self._bearer = bearer
        self._may_fall_back = may_fall_back
        self._stream: SharedStream | None = None
        self._http: HttpTransport | None = None

    async def call(
        self,
        do: str,
        body: dict[str, Any],
        deadline: float,
        *,
        lease: str = "",
        token: str = "",
    ) -> dict[str, Any]:
        """See `Transport.call`."""
        if self._http is None:
            start, stream = time.monotonic(), self._stream
            if stream is None:
                stream = self._stream = SharedStream.join(self.url, self._bearer)
            try:
                reply = await stream.begin(do, lease, token, body, deadline)
            except StreamRefused as refused:
                self._fall_back(stream, refused, wire.PHASES[do])
            else:
                return self._read(do, *reply)
            deadline -= time.monotonic() - start
        assert self._http is not None
        return await self._http.call(do, body, deadline, lease=lease, token=token)

    async def close(self) -> None:
        """Leave the stream; its last user closes it."""
        stream, self._stream = self._stream, None
        try:
            if stream is not None:
                await stream.leave()
        finally:
            if self._http is not None:
                await self._http.close()

    def _read(self, do: str, status: int, data: bytes) -> dict[str, Any]:
        try:
            values = wire.unpack(data)
            if status == 200 and type(values) is dict:
                return values
            error = wire.ErrorBody.unpack(values)
        except wire.WireError as wrong:
            what = f"not our protocol: {wrong}"
            raise EnvironmentFailure(
                what, phase=wire.PHASES[do], kind="invalid", where=self.url
            ) from None
        raise failure_of(status, error, wire.PHASES[do], self.url)

    def _fall_back(self, stream: SharedStream, refused: StreamRefused, phase: str) -> None:
        if not self._may_fall_back:
            if refused.error is not None:
                raise failure_of(refused.status, refused.error, phase, self.url) from None
            what = f"no stream: {refused}"
            raise EnvironmentFailure(
                what, phase=phase, kind="unreachable", where=self.url, next="use transport='http'"
            ) from None
        if stream.says_so():
            _log.warning("%s: no stream (%s); using HTTP", self.url, refused)
        self._http = self._http or HttpTransport(self.url, self._bearer)
