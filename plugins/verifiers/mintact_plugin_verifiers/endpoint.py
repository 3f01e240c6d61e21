"""A chat-completions endpoint behind which an agent of ours answers.

Environments of verifiers 0.4 ask their model over HTTP; this is what they are given for a model. It
listens on loopback, under a path that nobody else knows. One request a connection: a question may
wait for minutes. Uses h11, which verifiers brings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import h11

from mintact_plugin_verifiers.messages import Messages

Ask = Callable[[Messages, Any], Awaitable[Mapping[str, Any]]]
"""Takes messages and tools; gives the assistant's message."""

_MAX_BODY = 256 * 2**20
"""Bytes of a request: a conversation with all of its pictures."""
_CHUNK = 2**16


class Endpoint:
    """Answers `POST …/v1/chat/completions`, streamed or whole.

    Args:
        ask: waits for the agent's answer.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._path = f"/{secrets.token_urlsafe(16)}/v1"
        self._server: asyncio.Server | None = None
        self._waiting: set[asyncio.Task[Any]] = set()

    async def open(self) -> str:
        """Listen; the base URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._path}"

    async def close(self) -> None:
        """Stop listening; waiting questions are dropped."""
        if self._server is not None:
            self._server.close()
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        # not before: closing waits for those that still say goodbye, too
        task.add_done_callback(self._waiting.discard)
        connection = h11.Connection(h11.SERVER)
        try:
            status, kind, body = await self._respond(*await _read(connection, reader))
            head = [("Content-Type", kind), ("Content-Length", str(len(body)))]
            head.append(("Connection", "close"))
            for event in (
                h11.Response(status_code=status, headers=head),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                writer.write(connection.send(event) or b"")
            await writer.drain()
        except (h11.ProtocolError, OSError):
            pass  # the other side went away, or is no HTTP client
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _respond(self, request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        target = request.target.decode("ascii", "replace").partition("?")[0]
        if request.method != b"POST" or target != f"{self._path}/chat/completions":
            return 404, "application/json", b'{"error": {"message": "only chat completions"}}'
        try:
            asked = json.loads(body)
            messages, tools = asked["messages"], asked.get("tools")
        except (ValueError, KeyError, TypeError, AttributeError):
            return 400, "application/json", b'{"error": {"message": "no chat request"}}'
        message = await self._ask(messages, tools)
        if not asked.get("stream"):
            whole = _completion(asked, "chat.completion", "message", message)
            return 200, "application/json", json.dumps(whole).encode()
        chunk = _completion(asked, "chat.completion.chunk", "delta", _indexed(message))
        return 200, "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


async def _read(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> tuple[h11.Request, bytes]:
    """One request with its body.

    Raises:
        h11.ProtocolError: it is none, too long, or ends early.
    """
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MAX_BODY:
                raise h11.RemoteProtocolError("body too long")
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(body)
        else:
            raise h11.RemoteProtocolError("no request")


def _completion(
    asked: Mapping[str, Any], kind: str, part: str, message: Mapping[str, Any]
) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.get("model", ""),
        "choices": [{"index": 0, part: dict(message), "finish_reason": finish}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _indexed(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the one delta of a stream: its calls are numbered."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [{"index": k, **call} for k, call in enumerate(calls)]}
