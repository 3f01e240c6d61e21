"""One session of an OpenEnv server: JSON messages over a WebSocket, one reply to each.

Every wait has a deadline, and whatever the server does wrong becomes an `EnvironmentFailure`. A
call that got no answer takes the connection with it: a late reply could be read for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import string
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State

from mintact_platform.errors import ConfigurationError, EnvironmentFailure

_LOCAL = ("localhost", "127.0.0.1", "::1")
_CLOSE_S = 2.0
_LARGE = 1 << 20
"""Characters from which on a message is parsed on a thread."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_TOO_BIG = 1009
_ANSWERS = {"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}


class Reply(NamedTuple):
    """What the server answered.

    Attributes:
        data: of an observation, a state or a JSON-RPC response; of an error its details.
        code: the error's code, "" when it went well.
    """

    data: dict[str, Any]
    code: str = ""

    @property
    def message(self) -> str:
        """What the server says about its error, one line."""
        return " ".join(str(self.data.get("message", "no message")).split())


class Session:
    """A session that is yet to be opened.

    Args:
        url: `http(s)://` or `ws(s)://`, as the server's own client takes it.
        headers: sent with every connection.
        max_bytes: of one message; a larger one breaks the session.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str], max_bytes: int) -> None:
        self._base = _base(url)
        self._where = f"openenv server {self._base}"
        self._headers = dict(headers)
        self._max_bytes = max_bytes
        self._socket: ClientConnection | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection still stands."""
        return self._socket is not None and self._socket.state is State.OPEN

    async def open(self, seconds: float) -> None:
        """Connect, and wait for a free session as long as the time allows.

        Raises:
            EnvironmentFailure: `unreachable`, `full`, or what the server says.
        """
        pause, full = _FIRST_PAUSE_S, ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._socket = await self._connect()
                    # the server opens a session, or says why not, before it reads anything
                    reply = await self._exchange("state", None, "reset")
                    if reply.code in ("", "EXECUTION_ERROR"):
                        return
                    await self.drop()
                    if reply.code != "CAPACITY_REACHED":
                        raise self.failure(reply, "reset")
                    full = reply.message
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
        except TimeoutError:
            await self.drop()
            if full:
                raise self._fail(f"no session became free: {full}", "reset", "full") from None
            raise self._fail(f"no session within {seconds:g} s", "reset", "timeout") from None
        except BaseException:
            await self.drop()
            raise

    async def ask(
        self, kind: str, data: Mapping[str, Any] | None, *, phase: str, seconds: float
    ) -> Reply:
        """Send one message and read its reply.

        Args:
            kind: `reset`, `step`, `state` or `mcp`.
            data: of the message, None where it takes none.
            phase: for the failure.
            seconds: until the reply must be here.

        Raises:
            EnvironmentFailure: no reply, or one that is none; the session is lost.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(kind, data, phase)
        except TimeoutError:
            await self.drop()
            message = f"no reply to {kind!r} within {seconds:g} s"
            raise self._fail(message, phase, "timeout") from None
        except BaseException:
            await self.drop()
            raise

    async def schema(self, seconds: float) -> dict[str, Any]:
        """The JSON schema of an action, from the server's own endpoint.

        Raises:
            EnvironmentFailure: there is none.
        """
        url = f"{self._base}/schema"
        try:
            async with (
                asyncio.timeout(seconds),
                await asyncio.to_thread(_http_client, url, self._headers) as client,
            ):
                answer = await client.get(url, timeout=seconds)
                answer.raise_for_status()
                action = answer.json()["action"]
        except (httpx.HTTPError, TimeoutError) as error:
            message = f"no schema from {url}: {type(error).__name__}: {error}"
            raise self._fail(message, "reset", "unreachable") from error
        except (ValueError, KeyError, TypeError) as error:
            message = f"{url} is no schema: {type(error).__name__}: {error}"
            raise self._fail(message, "reset", "invalid") from error
        if not isinstance(action, dict):
            raise self._fail(f"the action schema of {url} is no object", "reset", "invalid")
        return action

    def failure(self, reply: Reply, phase: str) -> EnvironmentFailure:
        """The failure that an error reply stands for."""
        kind = "full" if reply.code == "CAPACITY_REACHED" else reply.code.lower()
        return self._fail(reply.message, phase, kind)

    async def close(self) -> None:
        """Say goodbye, so that the server frees the session, then close the connection."""
        if self._socket is not None and self.is_open:
            with contextlib.suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(_CLOSE_S):
                    await self._socket.send('{"type": "close"}')
                    await self._socket.close()
        await self.drop()

    async def drop(self) -> None:
        """Cut the connection without waiting for the server."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await socket.wait_closed()

    async def _connect(self) -> ClientConnection:
        url = f"ws{self._base.removeprefix('http')}/ws"
        try:
            return await connect(
                url,
                additional_headers=self._headers,
                max_size=self._max_bytes,
                open_timeout=None,  # the caller's deadline
                close_timeout=_CLOSE_S,
                compression=None,  # costs more time than it saves
                ping_interval=None,  # a step may block the server's loop; calls have deadlines
                proxy=None if _is_local(url) else True,
            )
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            message = f"cannot connect to {url}: {type(error).__name__}: {error}"
            raise self._fail(message, "reset", "unreachable") from error

    async def _exchange(self, kind: str, data: Mapping[str, Any] | None, phase: str) -> Reply:
        socket = self._socket
        if socket is None:
            raise self._fail("the session is lost; reset first", phase, "crash")
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        try:
            try:
                await socket.send(json.dumps(message))
            except ConnectionClosed:
                pass  # its last words may still be unread
            raw = await socket.recv()
        except ConnectionClosed as error:
            raise self._lost(error, phase) from error
        return self._read(await _parsed(raw), _ANSWERS[kind], phase)

    def _read(self, message: Any, wanted: str, phase: str) -> Reply:
        if not isinstance(message, dict) or not isinstance(message.get("data"), dict):
            raise self._fail(f"no message: {str(message)[:200]!r}", phase, "invalid")
        kind, data = message.get("type"), message["data"]
        if kind == "error":
            return Reply(data, str(data.get("code") or "SESSION_ERROR"))
        if kind != wanted:
            raise self._fail(f"answered {kind!r} in place of {wanted!r}", phase, "invalid")
        return Reply(data)

    def _lost(self, error: ConnectionClosed, phase: str) -> EnvironmentFailure:
        if error.sent is not None and error.sent.code == _TOO_BIG:
            return self._fail(f"a message over {self._max_bytes} bytes", phase, "invalid")
        return self._fail(f"the connection broke: {error}", phase, "crash")

    def _fail(self, what: str, phase: str, kind: str) -> EnvironmentFailure:
        return EnvironmentFailure(what, phase=phase, kind=kind, where=self._where)


def with_variables(values: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """The values with `${NAME}` replaced by environment variables, so that no secret is recorded.

    Raises:
        ConfigurationError: a variable is not set.
    """
    try:
        return {k: string.Template(v).substitute(os.environ) for k, v in (values or {}).items()}
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"cannot fill in {error}", where=where, next="set the environment variable it names"
        ) from None


async def _parsed(raw: str | bytes) -> Any:
    try:
        if len(raw) < _LARGE:
            return json.loads(raw)
        return await asyncio.to_thread(json.loads, raw)
    except (ValueError, RecursionError):
        return raw[:200]


def _base(url: str) -> str:
    """The server's address as HTTP.

    Raises:
        ConfigurationError: it is none.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "http", scheme
    rest = rest.rstrip("/").removesuffix("/ws")
    http = {"http": "http", "https": "https", "ws": "http", "wss": "https"}.get(scheme.lower())
    if http is None or not urlsplit(f"http://{rest}").hostname:
        raise ConfigurationError(
            f"no address of a server: {url!r}", where="openenv/ws", next="http://host:port"
        )
    return f"{http}://{rest}"


def _http_client(url: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """A client; reading all certificates takes too long for the loop, and plain HTTP has none."""
    verify = url.startswith("https:")
    return httpx.AsyncClient(verify=verify, trust_env=not _is_local(url), headers=headers)


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in _LOCAL
