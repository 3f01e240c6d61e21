"""The one stream between this process and a server, shared by all its leases.

Calls that are ready in one turn of the loop leave in one message. When the connection breaks, it
is made anew and every unanswered call is asked again under the same name, which the server joins
or answers from its record.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from websockets.exceptions import InvalidURI

from mintact_platform.environments.client.channel import Channel, StreamRefused
from mintact_platform.environments.client.connection import RETRY_AFTER, UNREACHABLE_AFTER
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.sweeper import Sweeper
from mintact_platform.environments.protocol.websocket import Data
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

_HANDSHAKE = 5.0
"""Seconds a server may take to answer the upgrade."""
_PATIENCE = 5.0
"""Seconds of silence, at most, after which the server is asked for a sign of life."""
_FRUITLESS = 3
"""Connections in a row that broke before any reply: something in between takes them away."""
_Key = tuple[str, str | None]
# the only state of this module: leases of one process find each other by it
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, SharedStream]]
_streams = WeakKeyDictionary()


class Pending:
    """A call that waits for its reply.

    Attributes:
        message: as it is sent, `[n, do, lease, token, body]`.
        deadline: seconds it was given.
        end: moment its caller gives up, on the loop's clock.
        patience: seconds of silence before the connection is doubted.
        due: next moment to look at it.
        reply: status and packed body.
    """

    __slots__ = ("deadline", "due", "end", "message", "patience", "reply")

    def __init__(
        self, message: list[Any], deadline: float, now: float, reply: asyncio.Future[Any]
    ) -> None:
        self.message = message
        self.deadline = deadline
        self.end = now + deadline
        self.patience = deadline / 8 if deadline < 8 * _PATIENCE else _PATIENCE
        self.due = now + self.patience
        self.reply = reply


class SharedStream:
    """All calls of this process to one server; see `join`."""

    def __init__(self, key: _Key) -> None:
        self._key = key
        self.url, bearer = key
        self._headers = {"Mintact-Protocol": str(wire.PROTOCOL)}
        if bearer:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._numbers = itertools.count(1)
        self._calls: dict[int, Pending] = {}
        self._unsent: list[Pending] = []
        self._flushing = False
        self._channel: Channel | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._works = False
        self._fruitless = 0
        self._said = False
        self._sweeper = Sweeper(self._calls, self._due)

    @classmethod
    def join(cls, url: str, bearer: str | None) -> SharedStream:
        """Become a user of the stream of this loop to that server."""
        streams = _streams.setdefault(asyncio.get_running_loop(), {})
        stream = streams.get((url, bearer)) or cls((url, bearer))
        streams[url, bearer] = stream
        stream._users += 1
        return stream

    async def leave(self) -> None:
        """Be no user any more; the last one closes the connection."""
        self._users -= 1
        if self._users == 0:
            _streams.get(self._loop, {}).pop(self._key, None)
            await self._close()

    def says_so(self) -> bool:
        """Whether nobody said yet that there is no stream; asked once."""
        said, self._said = self._said, True
        return not said

    def begin(
        self, do: str, lease: str, token: str, body: dict[str, Any], deadline: float
    ) -> asyncio.Future[tuple[int, bytes]]:
        """Begin a call; status and packed body of the reply come to the future.

        The body is the stream's from now on. The future raises `StreamRefused` when there is no
        stream, `EnvironmentFailure` of kind `timeout` or `unreachable`, and for a body that cannot
        be sent `WireError` or `ConfigurationError`. Cancel it to want no reply any more.
        """
        loop, number = self._loop, next(self._numbers)
        body["deadline_s"] = _served(deadline)
        reply = loop.create_future()
        call = Pending([number, do, lease, token, body], deadline, loop.time(), reply)
        self._calls[number] = call
        self._unsent.append(call)
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        self._sweeper.watch(call.due)
        return reply

    # ---- what the channel says ---

    def received(self, data: Data) -> None:
        """Replies, in any order."""
        try:
            replies = [(number, (status, body)) for number, status, body in wire.unpack(data)]
        except (wire.WireError, TypeError, ValueError):
            if self._channel is not None:
                self._channel.abort()
            return
        self._works, self._fruitless = True, 0
        for number, reply in replies:
            call = self._calls.pop(number, None)
            if call is not None and not call.reply.done():
                call.reply.set_result(reply)

    def lost(self, channel: Channel) -> None:
        """Ask again for what is unanswered, on a new connection."""
        if channel is not self._channel:
            return
        self._channel = None
        self._broke("the connection breaks before a reply")
        if self._is_wanted():
            self._connect()

    def drained(self) -> None:
        """Writing may go on."""
        self._flush()

    # ---- sending ---

    def _flush(self) -> None:
        self._flushing = False
        channel = self._channel
        if self._connecting is not None:
            return  # once it is there, everything is sent
        if channel is None:
            if self._is_wanted():
                self._connect()
        elif channel.writable:
            unsent, self._unsent = self._unsent, []
            for batch in _batches([call for call in unsent if not call.reply.done()]):
                channel.send(batch)

    def _is_wanted(self) -> bool:
        return any(not call.reply.done() for call in self._calls.values())

    def _connect(self) -> None:
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._open())
            self._connecting.add_done_callback(self._connected)

    async def _open(self) -> None:
        """Connect, however often it takes, for as long as somebody waits."""
        start = self._loop.time()
        while self._is_wanted() and self._channel is None:
            try:
                async with asyncio.timeout(_HANDSHAKE):
                    self._channel = await Channel.open(self.url, self._headers, self)
            except StreamRefused as error:
                self._refuse(error)
            except InvalidURI as error:
                self._refuse(StreamRefused(str(error)))
            except TimeoutError:
                self._broke(f"no answer to the upgrade within {_HANDSHAKE:g} s", _FRUITLESS)
            except ConnectionResetError:
                self._broke("the connection breaks during the handshake")
                await asyncio.sleep(RETRY_AFTER)
            except OSError as error:
                if self._loop.time() - start > UNREACHABLE_AFTER:
                    self._fail("unreachable", f"the server cannot be reached ({error})")
                await asyncio.sleep(RETRY_AFTER)

    def _connected(self, task: asyncio.Task[None]) -> None:
        """Send, or send again, whatever waits."""
        self._connecting = None
        if task.cancelled():
            return
        if (bug := task.exception()) is not None:
            for call in list(self._calls.values()):
                _settle(call, bug)
        now = self._loop.time()
        for call in self._calls.values():
            call.message[4]["deadline_s"] = _served(max(0.001, call.end - now))
        self._unsent = list(self._calls.values())
        self._flush()

    def _broke(self, how: str, weight: int = 1) -> None:
        """Count connections in vain; a stream that never worked is none after a few of them."""
        self._fruitless += weight
        if self._fruitless >= _FRUITLESS and not self._works:
            self._fruitless = 0
            self._refuse(StreamRefused(how))

    # ---- endings ---

    def _due(self, call: Pending) -> None:
        """A call waited in vain, or for so long that the connection is doubted."""
        now = self._loop.time()
        if now >= call.end or call.reply.done():
            what = f"no answer within {call.deadline:g} s"
            _settle(call, self._failure(call, "timeout", what))
            self._calls.pop(call.message[0], None)
            return
        call.due = min(call.end, now + call.patience)
        channel = self._channel
        if channel is None or now - channel.heard_at < call.patience:
            return
        if channel.pinged_at <= channel.heard_at:
            channel.pinged_at = now
            channel.ping()
        elif now - channel.pinged_at >= call.patience:
            channel.abort()

    def _refuse(self, error: StreamRefused) -> None:
        """Nobody gets a stream."""
        for call in list(self._calls.values()):
            _settle(call, StreamRefused(str(error), error.status, error.error))
        self._calls.clear()

    def _fail(self, kind: str, what: str) -> None:
        for call in list(self._calls.values()):
            _settle(call, self._failure(call, kind, what))
        self._calls.clear()

    def _failure(self, call: Pending, kind: str, what: str) -> EnvironmentFailure:
        phase = wire.PHASES[call.message[1]]
        return EnvironmentFailure(what, phase=phase, kind=kind, where=self.url)

    async def _close(self) -> None:
        self._fail("closed", "the stream was closed")
        self._sweeper.close()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()


def _served(left: float) -> float:
    """Seconds the server gets: less a margin in which its own typed answer can arrive."""
    return left - 0.5 if left > 2.0 else left * 0.75


def _settle(call: Pending, error: BaseException) -> None:
    if not call.reply.done():
        call.reply.set_exception(error)


def _batches(calls: list[Pending]) -> Iterator[bytes]:
    """Messages of these calls, of bounded size and number; a call that cannot be sent fails."""
    if not calls:
        return
    wrong: Exception | None = None
    try:
        data = wire.pack([call.message for call in calls])
    except wire.WireError as error:
        wrong, data = error, b""
    if len(data) > wire.MAX_REQUEST:
        wrong = ConfigurationError(f"{len(data)} bytes are over the cap of {wire.MAX_REQUEST}")
    if len(calls) == 1 and wrong is not None:
        _settle(calls[0], wrong)
    elif len(calls) == 1 or (
        wrong is None and len(data) <= wire.MAX_BATCH and len(calls) <= wire.MAX_OPEN_CALLS
    ):
        yield data
    else:
        half = len(calls) // 2
        yield from _batches(calls[:half])
        yield from _batches(calls[half:])
