"""The only way from an open context to the network: a forward proxy that looks where it connects.

The browser resolves no name itself. The proxy resolves it once, checks the address and connects
to that very address, so that neither a redirect nor a name that changes its mind gets anywhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from mintact_env_web.browser.guard import Policy
from mintact_platform.processes import finish

MAX_CONNECTIONS = 128
MAX_HEAD = 64 << 10
MAX_BYTES = 512 << 20
"""Received in an episode; beyond it connections are cut."""
HEAD_DEADLINE_S = 15
CONNECT_DEADLINE_S = 15
IDLE_S = 60
_CHUNK = 64 << 10

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Refused(Exception):
    """The policy does not allow it; the text is for the browser."""


class GuardProxy:
    """An HTTP proxy on loopback for one context: `CONNECT` and plain `http://` requests.

    Args:
        policy: which hosts and addresses may be reached.
        resolve: name and port to addresses; passed in by tests.

    Attributes:
        refused: what was refused, `host:port reason`.
        received: bytes that came from the network.
    """

    def __init__(self, policy: Policy, resolve: Resolve | None = None) -> None:
        self.policy = policy
        self.refused: list[str] = []
        self.received = 0
        self._resolve = resolve or resolve_name
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, policy: Policy, resolve: Resolve | None = None) -> GuardProxy:
        """A listening proxy."""
        proxy = cls(policy, resolve)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0, limit=MAX_HEAD)
        return proxy

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Cut every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > MAX_CONNECTIONS:
                return
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # a connection that breaks is the browser's to report
            return
        except asyncio.CancelledError:
            # only `close` cancels, and it has nothing to hear; streams complain about cancellation
            return
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_DEADLINE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            host, port, first = read_request(head)
            upstream = await self._connect(host, port)
        except Refused as refused:
            writer.write(_answer(403, str(refused)))
            await writer.drain()
            return
        except (OSError, TimeoutError):
            writer.write(_answer(502, "the host cannot be reached"))
            await writer.drain()
            return
        there, back = upstream[1], upstream[0]
        try:
            if first is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                there.write(first)
            await self._relay(reader, writer, back, there)
        finally:
            there.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that was checked.

        Raises:
            Refused: by the policy.
            OSError: nobody answers.
        """
        if not self.policy.allows_host(host):
            raise self._refuse(host, port, "is not among the allowed hosts")
        async with asyncio.timeout(CONNECT_DEADLINE_S):
            addresses = await self._resolve(host, port)
            allowed = [a for a in addresses if self.policy.allows_address(host, port, a)]
            if addresses and not allowed:
                raise self._refuse(host, port, "has a private address")
            error: OSError = OSError("no address")
            for address in allowed:
                try:
                    return await asyncio.open_connection(address, port)
                except OSError as problem:
                    error = problem
            raise error

    def _refuse(self, host: str, port: int, reason: str) -> Refused:
        self.refused.append(f"{host}:{port} {reason}")
        return Refused(f"{host} {reason}")

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        there: asyncio.StreamWriter,
    ) -> None:
        up = asyncio.create_task(self._pump(reader, there, counts=False))
        down = asyncio.create_task(self._pump(back, writer, counts=True))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            if not down.done():
                await asyncio.wait([down], timeout=IDLE_S)
        finally:
            for task in (up, down):
                task.cancel()
            await finish(_settled(up, down))

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, counts: bool
    ) -> None:
        while self.received < MAX_BYTES:
            async with asyncio.timeout(IDLE_S):
                data = await source.read(_CHUNK)
            if not data:
                return
            if counts:
                self.received += len(data)
            target.write(data)
            await target.drain()


def read_request(head: bytes) -> tuple[str, int, bytes | None]:
    """Host, port and, for a plain request, the head to send on; None for `CONNECT`.

    A plain request closes its connection: the next one may be for another host.

    Raises:
        Refused: not a request that a browser sends to a proxy.
    """
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            return parts.hostname or "", parts.port or 443, None
        parts = urlsplit(target)
        host, port = parts.hostname or "", parts.port or 80
    except (UnicodeDecodeError, ValueError):
        raise Refused("not a request") from None
    if parts.scheme != "http" or not host:
        raise Refused("not a request to a proxy")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    hidden = (b"proxy-", b"connection:", b"keep-alive:")
    lines = [h for h in rest.rstrip(b"\r\n").split(b"\r\n") if not h.lower().startswith(hidden)]
    first = f"{method} {path} {version}".encode()
    return host, port, b"\r\n".join([first, *lines, b"Connection: close", b"", b""])


async def resolve_name(host: str, port: int) -> list[str]:
    """Addresses of a name, in the system's order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def _settled(*tasks: asyncio.Task[None]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _answer(status: int, words: str) -> bytes:
    body = f"<!doctype html><title>{status}</title><p>{words}".encode()
    lines = (
        f"HTTP/1.1 {status} {'Forbidden' if status == 403 else 'Bad Gateway'}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body
