"""One end of a WebSocket of binary messages, on callbacks of the event loop.

The protocol itself is `websockets`' own, without its tasks and queues: they cost more than a step.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Protocol, State

Data: TypeAlias = bytes | bytearray | memoryview
"""Of a message, as it was read."""
_BUFFER = 4 << 20
"""Bytes that may wait to be written before the sender is asked to pause."""
_GRACE = 1.0
"""Seconds the other side may take to close."""


class WebSocket(asyncio.Protocol):
    """Reads messages, writes messages, closes.

    Args:
        protocol: the side's state machine, before its handshake.

    Attributes:
        heard_at: moment of the last bytes from the other side, on the loop's clock.
        writable: False while too much waits to be written.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._loop = asyncio.get_running_loop()
        self._ws = protocol
        self._transport: asyncio.Transport | None = None
        self._fragments: list[bytes] = []
        self._ending: asyncio.TimerHandle | None = None
        self.heard_at = self._loop.time()
        self.writable = True

    # ---- for subclasses ---

    def handshake(self, event: Request | Response) -> None:
        """The other side's part of the handshake came."""
        raise NotImplementedError

    def message(self, data: Data) -> None:
        """A whole message came."""
        raise NotImplementedError

    def drained(self) -> None:
        """Writing may go on."""

    # ---- for owners ---

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._ws.state is State.OPEN

    def send(self, data: Data) -> None:
        """Send a message; nothing happens on a connection that is closing."""
        if self.is_open:
            self._ws.send_binary(data)
            self._transmit()

    def ping(self) -> None:
        """Make the other side say something."""
        if self.is_open:
            self._ws.send_ping(b"")
            self._transmit()

    def fail(self, code: CloseCode, reason: str = "") -> None:
        """Close and say why; at most 120 characters of the reason."""
        if self.is_open:
            self._ws.fail(code, reason[:120])
            self._transmit()
            self._end_soon()

    def shut(self, code: CloseCode = CloseCode.NORMAL_CLOSURE) -> None:
        """Close as agreed with the other side, or without it after a second."""
        if self.is_open:
            self._ws.send_close(code)
            self._transmit()
            self._end_soon()
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(_BUFFER)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read what is complete."""
        self.heard_at = self._loop.time()
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Frame):
                self._frame(event)
            elif isinstance(event, Request | Response):
                self.handshake(event)
        self._transmit()

    def eof_received(self) -> None:
        """The other side closed."""
        self._ws.receive_eof()
        self._transmit()

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing comes or goes any more."""
        self._ws.state = State.CLOSED
        if self._ending is not None:
            self._ending.cancel()

    def pause_writing(self) -> None:
        """The other side reads too slowly."""
        self.writable = False

    def resume_writing(self) -> None:
        """It has caught up."""
        self.writable = True
        self.drained()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT:
            self.fail(CloseCode.UNSUPPORTED_DATA, "messages are binary")
        elif frame.opcode is Opcode.BINARY or frame.opcode is Opcode.CONT:
            if frame.fin and not self._fragments:
                self.message(frame.data)
                return
            self._fragments.append(bytes(frame.data))
            if frame.fin:
                whole, self._fragments = b"".join(self._fragments), []
                self.message(whole)

    def _transmit(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        for data in self._ws.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                # half: a full close while bytes are unread would take the reason away
                self._transport.write_eof()
                self._end_soon()
            else:
                self._transport.close()

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = self._loop.call_later(_GRACE, self.abort)
