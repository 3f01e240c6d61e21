"""A server at an address: streamable HTTP with bounded messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client

_STREAM = "text/event-stream"


class TooLarge(httpx2.TransportError):
    """A response over the cap."""


@asynccontextmanager
async def connected(
    url: str, headers: Mapping[str, str], max_bytes: int, seconds: float
) -> AsyncIterator[Any]:
    """The streams of a connection.

    Args:
        url: of the server's endpoint.
        headers: sent with every request.
        max_bytes: of one message.
        seconds: to connect and to send; answers have the caller's deadlines.
    """
    verify = urlsplit(url).scheme == "https"
    # reading all certificates takes long enough to be felt by those who share the loop
    transport = await asyncio.to_thread(_Bounded, max_bytes, verify)
    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=httpx2.Timeout(seconds, read=None),
            transport=transport,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncHTTPTransport):
    """Cuts a response that is one message and larger than a message may be."""

    def __init__(self, max_bytes: int, verify: bool) -> None:
        super().__init__(verify=verify)
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if not response.headers.get("content-type", "").startswith(_STREAM):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream, self._max_bytes)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream, self._limit, self._left = stream, limit, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise TooLarge(f"a message over {self._limit} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
