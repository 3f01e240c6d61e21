"""HTTP calls to an environment server, asked again when their reply got lost."""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlencode, urlsplit

import httpcore

from mintact_platform.environments.client.address import address_of
from mintact_platform.environments.client.network import Network
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.errors import (
    ConfigurationError,
    EnvironmentFailure,
    LeaseExpired,
    MintactError,
)

_KEPT_S = 600.0
RETRY_AFTER = 0.05
"""Seconds before a call is asked again."""
UNREACHABLE_AFTER = 3.0
"""Seconds of refused connections after which a server is given up: its leases died with it."""
_HEADERS = {
    "content-type": wire.MSGPACK,
    "accept": wire.MSGPACK,
    wire.PROTOCOL_HEADER: str(wire.PROTOCOL),
}
_UNREACHED = (httpcore.ConnectError, httpcore.UnsupportedProtocol)
_LOST = (
    *_UNREACHED,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    TimeoutError,
)


class Reply(NamedTuple):
    """What a server answered.

    Attributes:
        status: of HTTP.
        headers: by lower-case name.
        body: whole.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """HTTP calls to one server, repeated inside their deadline when a reply is lost.

    Args:
        url: of the server.
        bearer: token, if the server wants one.
    """

    def __init__(self, url: str, bearer: str | None = None) -> None:
        self.url = address_of(url)
        self._headers = {**_HEADERS, **({"authorization": f"Bearer {bearer}"} if bearer else {})}
        parts = urlsplit(self.url)
        host = (parts.hostname or "").encode()
        self._target = (parts.scheme.encode(), host, parts.port, parts.path)
        self._headers["host"] = parts.netloc.rpartition("@")[2]
        self._http = self._open()

    async def post(
        self, phase: str, path: str, body: Mapping[str, Any], deadline: float, *, token: str = ""
    ) -> dict[str, Any]:
        """Post a message that may be repeated; see `request`."""
        return await self.request(phase, "POST", path, body, deadline, token=token)

    async def request(
        self,
        phase: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        deadline: float,
        *,
        token: str = "",
    ) -> dict[str, Any]:
        """Send a message and read the reply.

        The server gets the time that is left, less a margin in which its own typed answer can
        arrive. An attempt waits for at most half of it: then the same call is asked again on a
        new connection and joins the one still running.

        Raises:
            EnvironmentFailure: typed; kind `timeout` once the deadline passed.
            ConfigurationError: the request is wrong.
        """
        start = time.monotonic()
        end, reached, lost = start + deadline, start, "no reply"
        while (left := end - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(max(left / 2, min(left, 1.0))):
                    reply = await self._send(method, path, body, left, token)
            except _LOST as error:
                lost = f"{type(error).__name__}: {error}".rstrip(": ")
                await self._renew()
                if not isinstance(error, _UNREACHED):
                    reached = time.monotonic()
                elif time.monotonic() - reached > UNREACHABLE_AFTER:
                    break
                await asyncio.sleep(RETRY_AFTER)
                continue
            if reply.status < 400:
                return self._read(phase, reply)
            if reply.status >= 500:
                await self._renew()
            if reply.status not in (502, 503, 504) or wire.PROTOCOL_HEADER in reply.headers:
                self._raise(phase, reply)
            reached, lost = time.monotonic(), f"HTTP {reply.status} from a proxy"
            await asyncio.sleep(RETRY_AFTER)
        late = time.monotonic() >= end
        what = f"no answer within {deadline:g} s" if late else "the server cannot be reached"
        kind = "timeout" if late else "unreachable"
        raise EnvironmentFailure(f"{what} ({lost})", phase=phase, kind=kind, where=self.url)

    async def cancel(self, key: str, deadline: float = 10.0) -> None:
        """Give back whatever lease this key made or is about to make."""
        try:
            path = f"/v1/leases?{urlencode({'key': key})}"
            await self.request("create", "DELETE", path, None, deadline)
        except (EnvironmentFailure, ConfigurationError):
            pass  # unreachable: the lease ends by its time to live

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, left: float, token: str
    ) -> Reply:
        content = b""
        if body is not None:
            margin = min(0.5, left / 4)
            content = wire.pack({**body, "deadline_s": left - margin})
        headers = {**self._headers, "content-length": str(len(content))}
        if token:
            headers[wire.TOKEN_HEADER] = token
        scheme, host, port, prefix = self._target
        target = (prefix + path).encode()
        request = httpcore.Request(
            method,
            httpcore.URL(scheme=scheme, host=host, port=port, target=target),
            headers=[(name.encode(), value.encode()) for name, value in headers.items()],
            content=content,
        )
        reply = await self._http.handle_async_request(request)
        try:
            whole = await reply.aread()
        finally:
            await reply.aclose()
        said = {name.decode("latin-1").lower(): v.decode("latin-1") for name, v in reply.headers}
        return Reply(reply.status, said, whole)

    def _read(self, phase: str, reply: Reply) -> dict[str, Any]:
        try:
            return wire.loads(reply.body, reply.headers.get("content-type", ""))
        except wire.WireError as error:
            raise EnvironmentFailure(
                f"not our protocol: {error}", phase=phase, kind="invalid", where=self.url
            ) from None

    def _raise(self, phase: str, reply: Reply) -> NoReturn:
        try:
            media = reply.headers.get("content-type", "")
            error = ErrorBody.unpack(wire.loads(reply.body, media))
        except wire.WireError:
            error = ErrorBody(
                "invalid",
                phase,
                f"HTTP {reply.status}: {reply.body[:200].decode(errors='replace')!r}",
            )
        raise failure_of(reply.status, error, phase, self.url)

    async def _renew(self) -> None:
        """Never reuse a connection after a failure: its next reply may be another call's."""
        old, self._http = self._http, self._open()
        await old.aclose()

    def _open(self) -> httpcore.AsyncConnectionPool:
        """A connection of its own, and a second one for a repeated call.

        There are no timeouts, every request runs under `asyncio.timeout`.
        """
        return httpcore.AsyncConnectionPool(
            ssl_context=tls(self.url.startswith("https:")),
            max_connections=2,
            max_keepalive_connections=1,
            keepalive_expiry=_KEPT_S,
            network_backend=Network(),
        )


def failure_of(status: int, error: ErrorBody, phase: str, url: str) -> MintactError:
    """The exception for an error reply: bad input, a lease that is gone, or a failure."""
    if status in (400, 401, 403, 413, 415, 426):
        return ConfigurationError(error.message, where=url)
    failure = LeaseExpired if status == 410 else EnvironmentFailure
    return failure(
        error.message,
        phase=phase,
        kind=error.kind,
        retryable=error.retryable,
        log_tail=error.log_tail,
        where=f"{url} ({phase})",
        retry_after=error.retry_after_s,
    )


@functools.cache
def tls(real: bool) -> ssl.SSLContext:
    """One context for all clients; building it reads the certificate store (20 ms)."""
    return ssl.create_default_context() if real else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
