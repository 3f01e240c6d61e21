"""The HTTP routes of the embedded engine: those of SGLang 0.5 that its clients and router call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from mintact_platform.errors import MintactError
from mintact_plugin_torch.engine.bodies import (
    AbortBody,
    DiskBody,
    PauseBody,
    VersionBody,
    failure,
    read,
)
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.generation import Replies, generate
from mintact_plugin_torch.engine.metrics import CONTENT_TYPE
from mintact_plugin_torch.engine.request import BadRequest, GenerateBody, SamplingBody

_HEALTH_SECONDS = 20.0
_LONGEST_WAIT = 3600.0

# transports of other processes' memory; weights come from disk here
_REFUSED = (
    "/update_weights_from_tensor",
    "/update_weights_from_distributed",
    "/update_weights_from_ipc",
    "/init_weights_update_group",
    "/destroy_weights_update_group",
)


def create_app(engine: Engine, *, on_start: Callable[[], None] | None = None) -> FastAPI:
    """The application; its lifespan starts and stops the engine's thread.

    Args:
        engine: what is served.
        on_start: called once the engine runs.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.scheduler.start()
        if on_start is not None:
            on_start()
        yield
        await asyncio.to_thread(engine.scheduler.stop)

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.state.engine = engine
    handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/generate": generate,
        "/model_info": model_info,
        "/get_model_info": model_info,
        "/server_info": server_info,
        "/get_server_info": server_info,
        "/health": health,
        "/ready": health,
        "/health_generate": health_generate,
        "/v1/loads": loads,
        "/get_load": get_load,
        "/metrics": metrics,
        "/flush_cache": flush_cache,
        "/abort_request": abort_request,
        "/pause_generation": pause_generation,
        "/continue_generation": continue_generation,
        "/begin_weight_update": bracket,
        "/end_weight_update": bracket,
        "/update_weights_from_disk": update_weights_from_disk,
        "/update_weight_version": update_weight_version,
        **dict.fromkeys(_REFUSED, refused),
    }
    for path, handler in handlers.items():
        # no body type in the signature: bodies are read and checked by `read`
        app.add_route(path, handler, methods=["GET", "POST", "PUT"])
    app.add_exception_handler(BadRequest, _bad_request)
    app.add_exception_handler(MintactError, _bad_request)
    return app


# ---- what is served, and how busy it is ----------------------------------------------------------


async def model_info(request: Request) -> Response:
    """`/model_info`: the model and the version of its weights."""
    return JSONResponse(_engine(request).information())


async def server_info(request: Request) -> Response:
    """`/server_info`: the model and the sizes of the engine."""
    engine = _engine(request)
    sizes = {**engine.limits._asdict(), "slots": engine.scheduler.runner.slots.count}
    return JSONResponse(
        {
            **engine.information(),
            "tp_size": 1,
            "dp_size": 1,
            "version": "mintact-embedded",
            "disaggregation_mode": "null",
            "skip_tokenizer_init": True,
            "deterministic": engine.deterministic,
            "limits": sizes,
            "internal_states": [engine.load_figures()],
        }
    )


async def health(request: Request) -> Response:
    """`/health`: whether the engine's thread lives and its forwards succeed."""
    return Response(status_code=200 if _engine(request).scheduler.healthy else 503)


async def health_generate(request: Request) -> Response:
    """`/health_generate`: whether a token can be generated; a pause counts as healthy."""
    engine = _engine(request)
    if engine.scheduler.paused:
        return await health(request)
    replies = Replies(lambda: engine.scheduler.version, logprobs=False)
    body = GenerateBody(input_ids=[0], sampling_params=SamplingBody(max_new_tokens=1))
    job = await engine.prepare(body, replies.push)
    engine.scheduler.submit(job)
    try:
        async with asyncio.timeout(_HEALTH_SECONDS):
            reply = await replies.next()
    except TimeoutError:
        engine.scheduler.abort(lambda other: other is job)
        return Response(status_code=503)
    return Response(status_code=200 if reply["output_ids"] else 503)


async def loads(request: Request) -> Response:
    """`/v1/loads`: running and waiting requests."""
    return JSONResponse({"loads": [_engine(request).load_figures()]})


async def get_load(request: Request) -> Response:
    """`/get_load`: the same in its older form, which the router reads."""
    figures = _engine(request).load_figures()
    running, waiting = figures["num_running_reqs"], figures["num_waiting_reqs"]
    return JSONResponse(
        [
            {
                "dp_rank": 0,
                "num_reqs": running + waiting,
                "num_waiting_reqs": waiting,
                "num_tokens": figures["num_used_tokens"],
            }
        ]
    )


async def metrics(request: Request) -> Response:
    """`/metrics`: figures for Prometheus, under SGLang's names."""
    return Response(_engine(request).metrics(), media_type=CONTENT_TYPE)


# ---- control -----------------------------------------------------------------------------------


async def flush_cache(request: Request) -> Response:
    """`/flush_cache`: 400 while requests hold slots; `?timeout=` waits for them that long."""
    scheduler = _engine(request).scheduler
    clock = asyncio.get_running_loop().time
    until = clock() + _seconds(request.query_params.get("timeout", "0"))
    while not await scheduler.ask(scheduler.flush):
        if clock() >= until:
            text = f"cache not flushed: {scheduler.running} requests run"
            return PlainTextResponse(text, status_code=400)
        await asyncio.sleep(0.02)
    return PlainTextResponse("cache flushed")


async def abort_request(request: Request) -> Response:
    """`/abort_request`: end one request or all; says nothing about whether there was one."""
    body = await read(request, AbortBody)
    _engine(request).scheduler.abort(lambda job: body.abort_all or job.rid == body.rid)
    return Response()


async def pause_generation(request: Request) -> Response:
    """`/pause_generation`: requests are ended, lose their slots, or keep them."""
    body = await read(request, PauseBody)
    scheduler = _engine(request).scheduler
    await scheduler.ask(lambda: scheduler.pause(body.mode))
    return JSONResponse({"status": "ok", "message": f"paused ({body.mode})"})


async def continue_generation(request: Request) -> Response:
    """`/continue_generation`."""
    scheduler = _engine(request).scheduler
    await scheduler.ask(scheduler.resume)
    return JSONResponse({"status": "ok", "message": "continued"})


async def bracket(request: Request) -> Response:
    """`/begin_weight_update` and `/end_weight_update`: an update from disk is one piece here."""
    return _success("")


async def update_weights_from_disk(request: Request) -> Response:
    """`/update_weights_from_disk`: 400 and the old weights when the directory will not do."""
    body = await read(request, DiskBody)
    try:
        await _engine(request).load(
            body.model_path, body.weight_version, abort=body.abort_all_requests
        )
    except MintactError as error:
        return JSONResponse({"success": False, "message": str(error)}, status_code=400)
    return _success("weights updated", num_paused_requests=0)


async def update_weight_version(request: Request) -> Response:
    """`/update_weight_version`: another name for the same weights."""
    body = await read(request, VersionBody)
    scheduler = _engine(request).scheduler
    if body.abort_all_requests:
        scheduler.abort(lambda job: True)

    def rename() -> None:
        scheduler.version = body.new_version

    await scheduler.ask(rename)
    return _success("version updated", new_version=body.new_version)


async def refused(request: Request) -> Response:
    """Weight transports that need the sender's memory: 501."""
    message = f"{request.url.path} is not served here; use /update_weights_from_disk"
    return JSONResponse({"success": False, "message": message}, status_code=501)


# ---- helpers -----------------------------------------------------------------------------------


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise BadRequest(f"timeout: a number of seconds in [0, {_LONGEST_WAIT:g}]")
    return seconds


def _success(message: str, **more: Any) -> Response:
    return JSONResponse({"success": True, "message": message, **more})


async def _bad_request(request: Request, error: Exception) -> Response:
    return failure(400, str(error))
