"""The server's side of `GET /v1/stream`: the lease protocol in batches over one WebSocket.

A message of a client is `[[n, do, lease, token, body], …]`, a message of the server
`[[n, status, packed reply], …]` in any order. Everything that is ready in one turn of the loop
leaves in one message. A stream that breaks ends no lease and no call: what still runs is recorded,
and the client asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from uvicorn.server import ServerState
from websockets.datastructures import Headers
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import (
    CancelRequest,
    CreateRequest,
    EvaluateRequest,
    HeartbeatRequest,
    ResetRequest,
    read,
    read_step,
)
from mintact_platform.environments.protocol.websocket import Data, WebSocket
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.border import Border
from mintact_platform.environments.server.calls import Reply
from mintact_platform.environments.server.leases import Refusal
from mintact_platform.environments.server.service import LeaseService
from mintact_platform.errors import ConfigurationError

PATH = "/v1/stream"
_SILENCE = 30.0
"""Seconds of silence after which a client is pinged, and after as many again given up."""


class Stream(WebSocket):
    """One client.

    Args:
        service: carries out the calls.
        border: looks at the handshake.
        state: of the uvicorn server, which closes its connections and awaits its tasks.
    """

    def __init__(self, service: LeaseService, border: Border, state: ServerState) -> None:
        self._protocol = ServerProtocol(max_size=wire.MAX_REQUEST)
        super().__init__(self._protocol)
        self._service = service
        self._border = border
        self._state = state
        self._packer = wire.Packer(None)
        self._open = 0
        self._ready: list[tuple[int, int, bytes]] = []
        self._flushing = False
        self._reading = True
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the server know that it has one more connection."""
        super().connection_made(transport)
        self._state.connections.add(self)  # type: ignore[arg-type]  # it asks for shutdown() only
        self._service.metrics.stream_connections += 1
        self._watch = self._loop.call_later(_SILENCE, self._look)

    def connection_lost(self, error: Exception | None) -> None:
        """Open calls go on, their replies are recorded."""
        super().connection_lost(error)
        self._state.connections.discard(self)
        self._service.metrics.stream_connections -= 1
        self._ready.clear()
        if self._watch is not None:
            self._watch.cancel()

    def shutdown(self) -> None:
        """The server ends."""
        self.shut(CloseCode.GOING_AWAY)

    def handshake(self, event: Request | Response) -> None:
        """Let the client in, or say why not."""
        assert isinstance(event, Request)
        refusal = self._refusal(event)
        response = self._protocol.accept(event)
        response.headers["Mintact-Protocol"] = str(wire.PROTOCOL)
        if refusal is not None:
            response = _refused(refusal)
        self._protocol.send_response(response)

    def message(self, data: Data) -> None:
        """Begin every call of a batch."""
        try:
            calls = wire.unpack(data)
        except wire.WireError as error:
            self.fail(CloseCode.INVALID_DATA, str(error))
            return
        if type(calls) is not list or len(calls) > wire.MAX_OPEN_CALLS:
            reason = f"a message is a list of at most {wire.MAX_OPEN_CALLS} calls"
            self.fail(CloseCode.INVALID_DATA, reason)
            return
        for call in calls:
            if type(call) is not list or len(call) != 5 or type(call[0]) is not int:
                self.fail(CloseCode.INVALID_DATA, "a call is [n, do, lease, token, body]")
                return
            self._begin(*call)
        self._pace()

    def drained(self) -> None:
        """The client reads again."""
        self._flush()

    def _refusal(self, request: Request) -> Refusal | None:
        headers = request.headers
        if request.path.partition("?")[0] != PATH:
            return Refusal(404, ErrorBody("unknown", "create", f"the stream is at {PATH}", False))
        if "Origin" in headers:
            message = "a web page may not open this stream"
            return Refusal(403, ErrorBody("unauthorised", "create", message, False))
        return self._border.refusal(
            PATH,
            protocol=headers.get(wire.PROTOCOL_HEADER, ""),
            authorisation=headers.get("Authorization", "").encode(),
        )

    def _begin(self, number: int, do: str, lease: str, token: str, body: dict[str, Any]) -> None:
        """Start one call; whatever is wrong with it alone is its reply."""
        self._open += 1
        try:
            if type(lease) is not str or type(token) is not str or type(body) is not dict:
                raise ConfigurationError("lease and token are text, body a map", where="request")
            if do == "step":
                step, action, episode, seconds = read_step(body)
                calls = self._service.calls
                calls.step(lease, token, step, action, episode, seconds, self._answered, number)
            else:
                self._begin_other(number, do, lease, token, body)
        except Exception as error:
            self._answered(number, refused(error, do))

    def _begin_other(
        self, number: int, do: str, lease: str, token: str, body: dict[str, Any]
    ) -> None:
        service = self._service
        if do == "reset":
            reset = read(ResetRequest, body)
            service.calls.reset(lease, token, reset, self._answered, number)
        elif do == "evaluate":
            seconds = read(EvaluateRequest, body).deadline_s
            service.calls.evaluate(lease, token, seconds, self._answered, number)
        elif do == "heartbeat":
            gone = service.heartbeat(read(HeartbeatRequest, body).leases)
            self._answered(number, Reply(200, wire.pack({"gone": gone})))
        elif do == "create":
            self._await(number, do, service.create(read(CreateRequest, body)))
        elif do == "release":
            self._await(number, do, service.release(lease, token))
        elif do == "cancel":
            self._await(number, do, service.cancel(read(CancelRequest, body).key))
        else:
            raise ConfigurationError(f"unknown call {do!r}", where="request")

    def _await(self, number: int, do: str, work: Coroutine[Any, Any, Any]) -> None:
        """Answer once the work is done, which goes on without the client if need be."""

        async def answer() -> None:
            try:
                reply = Reply(200, wire.pack(await work or {}))
            except Exception as error:
                reply = refused(error, do)
            self._answered(number, reply)

        task = self._loop.create_task(answer())
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _answered(self, number: int, reply: Reply) -> None:
        body = reply.body
        if body is None:
            assert reply.error is not None
            body = wire.pack(reply.error.pack())
        self._ready.append((number, reply.status, body))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._ready and self.writable and self.is_open:
            batch: list[tuple[int, int, bytes]] = []
            size = 0
            for reply in self._ready:
                size += len(reply[2])
                if batch and size > wire.MAX_BATCH:
                    break
                batch.append(reply)
            del self._ready[: len(batch)]
            self._open -= len(batch)
            self.send(self._packer.pack(batch))
        self._pace()

    def _pace(self) -> None:
        """Read on only while not too many calls are open, and their replies get away."""
        reading = self._open < wire.MAX_OPEN_CALLS and self.writable
        if reading != self._reading and self._transport is not None:
            self._reading = reading
            (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def _look(self) -> None:
        """Find out whether a silent client is still there."""
        silent = self._loop.time() - self.heard_at
        if self._reading and silent >= 2 * _SILENCE:
            self.abort()
            return
        if silent >= _SILENCE:
            self.ping()
        self._watch = self._loop.call_later(_SILENCE, self._look)


def stream_of(service: LeaseService, border: Border) -> Any:
    """What `uvicorn.Config` takes as `ws`: makes a `Stream` of every upgrade.

    Beside the app and not in it, because an ASGI message a batch costs as much as its steps.
    """

    def protocol(config: Any, server_state: ServerState, app_state: Any) -> Stream:
        return Stream(service, border, server_state)

    return protocol


def refused(error: Exception, do: str) -> Reply:
    """An exception as the reply to a call: a refusal, bad input, or a bug of ours."""
    if isinstance(error, Refusal):
        return Reply(error.status, error=error.error)
    phase = wire.PHASES.get(do, "create")
    if isinstance(error, ConfigurationError | wire.WireError):
        return Reply(400, error=ErrorBody("configuration", phase, str(error), False))
    return Reply(500, error=ErrorBody("internal", phase, repr(error), False))


def _refused(refusal: Refusal) -> Response:
    body = wire.dumps(refusal.error.pack(), wire.JSON)
    headers = Headers()
    headers["Mintact-Protocol"] = str(wire.PROTOCOL)
    headers["Content-Type"] = wire.JSON
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    return Response(refusal.status, refusal.error.kind, headers, body)
