"""`/generate`: one request a call, streamed or not, ended when its caller goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from mintact_plugin_torch.engine.bodies import failure, read
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.request import GenerateBody, Job


class Replies:
    """Replies of a job, handed from the engine's thread to the event loop."""

    def __init__(self, version: Callable[[], str], *, logprobs: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._version, self._logprobs = version, logprobs

    def push(self, job: Job) -> None:
        """Called on the engine's thread."""
        reply = job.reply(self._version(), logprobs=self._logprobs)
        self._loop.call_soon_threadsafe(self._queue.put_nowait, reply)

    async def next(self) -> dict[str, Any]:
        """The next reply."""
        return await self._queue.get()


async def generate(request: Request) -> Response:
    """Serve one request."""
    engine: Engine = request.app.state.engine
    body = await read(request, GenerateBody)
    replies = Replies(lambda: engine.scheduler.version, logprobs=body.return_logprob)
    job = await engine.prepare(body, replies.push)
    engine.scheduler.submit(job)
    if body.stream:
        return StreamingResponse(_stream(engine, job, replies), media_type="text/event-stream")
    try:
        reply = await _unless_gone(request, replies)
    finally:
        if job.finish is None:
            engine.scheduler.abort(lambda other: other is job)
    if reply is None:
        return Response(status_code=499)
    status = reply["meta_info"]["finish_reason"].get("status_code")
    if status:
        return failure(status, reply["meta_info"]["finish_reason"]["message"])
    return Response(json.dumps(reply), media_type="application/json")


async def _stream(engine: Engine, job: Job, replies: Replies) -> AsyncIterator[bytes]:
    try:
        while True:
            reply = await replies.next()
            finish = reply["meta_info"]["finish_reason"]
            if reply["output_ids"] or finish:
                yield b"data: " + json.dumps(reply).encode() + b"\n\n"
            if finish:
                break
        yield b"data: [DONE]\n\n"
    finally:
        if job.finish is None:
            engine.scheduler.abort(lambda other: other is job)


async def _unless_gone(request: Request, replies: Replies) -> dict[str, Any] | None:
    """The reply, or None when the caller closed the connection first."""
    answer = asyncio.create_task(replies.next())
    gone = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
