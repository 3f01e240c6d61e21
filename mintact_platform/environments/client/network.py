"""Sockets for httpcore: a request is one write, and a read costs no more than the event loop's own.

httpcore's own backend wraps every read and write in a cancel scope and sends a request's head and
body apart; on a step that carries a screenshot that is a third of the client's time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

MAX_WAITING = 1 << 20
"""Received bytes beyond which the sender is told to wait."""


class Network(httpcore.AsyncNetworkBackend):
    """TCP by asyncio alone. Timeouts are ignored: every call runs under `asyncio.timeout`."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connected stream.

        Raises:
            httpcore.ConnectError: nobody answers.
        """
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.create_connection(_Socket, host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return Stream(protocol)

    async def sleep(self, seconds: float) -> None:
        """Between two attempts to connect; there is one."""
        await asyncio.sleep(seconds)


class Stream(httpcore.AsyncNetworkStream):
    """A connection; what is written waits for the next read.

    Args:
        socket: the protocol that receives.
    """

    def __init__(self, socket: _Socket) -> None:
        self._socket = socket
        self._unsent: list[bytes] = []

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Keep bytes for the next read, before which nobody waits for them."""
        self._unsent.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send what waits, then what has come, whole; b"" at the end.

        Raises:
            httpcore.ReadError: the connection was lost.
        """
        if self._unsent:
            self._socket.transport.write(b"".join(self._unsent))
            self._unsent.clear()
        return await self._socket.read()

    async def aclose(self) -> None:
        """Close at once."""
        self._socket.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted.

        Raises:
            httpcore.ConnectError: the other side does not prove who it is.
        """
        loop, socket = asyncio.get_running_loop(), self._socket
        try:
            transport = await loop.start_tls(
                socket.transport, socket, ssl_context, server_hostname=server_hostname
            )
        except (OSError, ssl.SSLError) as error:
            raise httpcore.ConnectError(str(error)) from error
        if transport is None:
            raise httpcore.ConnectError("closed while it was being encrypted")
        socket.transport = transport
        return self

    def get_extra_info(self, info: str) -> Any:
        """`is_readable`: bytes nobody asked for, or the end; then it serves no more requests."""
        if info == "is_readable":
            return self._socket.has_news
        if info == "ssl_object":
            return self._socket.transport.get_extra_info("ssl_object")
        return None


class _Socket(asyncio.Protocol):
    """What a connection has received."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = bytearray()
        self._ended: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._paused = False

    @property
    def has_news(self) -> bool:
        return bool(self._received) or self._ended is not None

    async def read(self) -> bytes:
        if not self.has_news:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self._received:
            if isinstance(self._ended, EOFError):
                return b""
            raise httpcore.ReadError(str(self._ended))
        data = bytes(self._received)
        self._received.clear()
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > MAX_WAITING and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = self._ended or EOFError()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = self._ended or error or EOFError()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
