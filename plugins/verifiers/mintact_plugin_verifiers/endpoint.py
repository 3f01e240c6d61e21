"""A chat-completions endpoint behind which an agent of ours answers.

Environments of verifiers 0.4 ask their model over HTTP; this is what they are given for a model. It
listens on loopback, under a path that nobody else knows. Imports aiohttp, which verifiers brings.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from mintact_plugin_verifiers.messages import Messages

Ask = Callable[[Messages, Any], Awaitable[Mapping[str, Any]]]
"""Takes messages and tools; gives the assistant's message."""

_MAX_BODY = 256 * 2**20
"""Bytes of a request: a conversation with all of its pictures."""


class Endpoint:
    """Answers `POST …/v1/chat/completions`, streamed or whole.

    Args:
        ask: waits for the agent's answer.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._runner: web.AppRunner | None = None

    async def open(self) -> str:
        """Listen; the base URL."""
        secret = secrets.token_urlsafe(16)
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_post(f"/{secret}/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        return f"http://127.0.0.1:{port}/{secret}/v1"

    async def close(self) -> None:
        """Stop listening; waiting questions are dropped."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        message = await self._ask(asked.get("messages") or (), asked.get("tools"))
        if not asked.get("stream"):
            return web.json_response(_completion(asked, "chat.completion", "message", message))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chunk = _completion(asked, "chat.completion.chunk", "delta", _indexed(message))
        for event in (json.dumps(chunk), "[DONE]"):
            await response.write(f"data: {event}\n\n".encode())
        await response.write_eof()
        return response


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
