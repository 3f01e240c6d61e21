"""Connections to one server, each used by one request at a time.

httpx's shared pool looks through all its connections for every request, which at a hundred
concurrent requests costs more than the requests themselves; here an idle one is taken from a list.
"""

from __future__ import annotations

import asyncio
import ssl

import httpx


class Lines:
    """Up to `limit` connections, opened when none is idle.

    Args:
        tls: shared by all.
        limit: upper bound of requests at a time.
    """

    def __init__(self, tls: ssl.SSLContext, limit: int) -> None:
        self._tls = tls
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._free = asyncio.Semaphore(limit)

    async def send(self, request: httpx.Request, *, fresh: bool = False) -> httpx.Response:
        """Send, and read the whole reply. A line that failed is closed, never used again.

        Args:
            request: its body is bytes, so that it can be sent again.
            fresh: open a new connection even if one is idle.

        Raises:
            httpx.TransportError: no connection, or it was lost.
        """
        async with self._free:
            line = self._open() if fresh or not self._idle else self._idle.pop()
            try:
                response = await line.handle_async_request(request)
                await response.aread()
            except BaseException:
                await _close(line)
                raise
            if response.status_code >= 500:
                await _close(line)
            else:
                self._idle.append(line)
            return response

    async def aclose(self) -> None:
        """Close all idle connections."""
        while self._idle:
            await _close(self._idle.pop())

    def _open(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        return httpx.AsyncHTTPTransport(verify=self._tls, limits=limits, trust_env=False)


async def _close(line: httpx.AsyncHTTPTransport) -> None:
    await asyncio.shield(asyncio.ensure_future(line.aclose()))
