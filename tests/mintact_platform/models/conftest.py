"""Workers that speak the routes of model servers over real sockets, and clients of theirs."""

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from mintact_platform.models.client import ModelServers

CONTROL = (
    "/pause_generation",
    "/flush_cache",
    "/begin_weight_update",
    "/update_weights_from_disk",
    "/end_weight_update",
    "/continue_generation",
)


def _reply(ids=(5, 6), logprobs=(-0.5, -0.25), finish="stop", **meta):
    pairs = [[logprob, token, None] for logprob, token in zip(logprobs, ids, strict=False)]
    return {
        "output_ids": list(ids),
        "meta_info": {
            "finish_reason": {"type": finish, "message": "Aborted"},
            "prompt_tokens": 3,
            "cached_tokens": 1,
            "weight_version": "4",
            "output_token_logprobs": pairs,
            **meta,
        },
    }


@dataclass
class Worker:
    """What a worker does and what it saw; `control` is a whole update, route by route."""

    control: ClassVar = CONTROL
    reply: dict = field(default_factory=_reply)
    status: int = 200
    hang: bool = False
    reads_paths: bool = True
    version: str = "4"
    brackets: bool = True
    busy_flushes: int = 0
    known_rids: int = 0
    lost: int = 0
    refuses: tuple[str, ...] = ()
    deaf_to_updates: bool = False
    url: str = ""
    calls: list = field(default_factory=list)
    keys: set = field(default_factory=set)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    def bodies(self, route):
        return [body for path, body in self.calls if path == route]

    def routes(self):
        return [path for path, _ in self.calls if path in CONTROL]

    def reply_with(self, **changes):
        """Its reply with other tokens, another end, or other information about them."""
        return _reply(**changes)


def _app(worker, loop):
    app = FastAPI()

    @app.middleware("http")
    async def record(request: Request, call):
        body = await request.body()
        worker.keys.add(request.headers.get("authorization"))
        request.state.body = json.loads(body) if body else {}
        worker.calls.append((request.url.path, request.state.body))
        return await call(request)

    @app.post("/generate")
    async def generate(request: Request):
        body = request.state.body
        images = body.get("image_data", [])
        if worker.lost:
            worker.lost -= 1
            message = "error sending request for url (http://127.0.0.1:1/generate)"
            return JSONResponse({"error": {"message": message}}, status_code=500)
        if worker.known_rids:
            worker.known_rids -= 1
            message = f"Duplicate request ID detected: {body['rid']}"
            return JSONResponse({"error": {"message": message}}, status_code=400)
        if not worker.reads_paths and any(image.startswith("/") for image in images):
            return JSONResponse({"error": {"message": "cannot read image"}}, status_code=400)
        while worker.hang and not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return JSONResponse(worker.reply, status_code=worker.status)

    @app.post("/abort_request")
    async def abort():
        loop.call_soon_threadsafe(worker.aborted.set)
        return Response()

    @app.get("/health")
    async def health():
        return Response()

    @app.get("/model_info")
    async def info():
        return {"weight_version": worker.version}

    @app.post("/{route}")
    async def control(route: str, request: Request):
        body = request.state.body
        if route in ("begin_weight_update", "end_weight_update") and not worker.brackets:
            return Response(status_code=404)
        if route == "flush_cache" and worker.busy_flushes:
            worker.busy_flushes -= 1
            return Response(status_code=400)
        if route == "update_weights_from_disk":
            if body["weight_version"] in worker.refuses:
                return JSONResponse({"success": False, "message": "bad path"}, status_code=400)
            if not worker.deaf_to_updates:
                worker.version = body["weight_version"]
        return {"success": True, "status": "ok"}

    return app


@pytest.fixture
async def workers():
    """Start workers; each is asked at its `url` and says afterwards what it was asked."""
    servers, threads = [], []
    loop = asyncio.get_running_loop()

    async def start(**behaviour):
        worker = Worker(**behaviour)
        config = uvicorn.Config(
            _app(worker, loop), port=0, log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        worker.url = f"http://127.0.0.1:{port}"
        servers.append(server)
        threads.append(thread)
        return worker

    yield start
    for server in servers:
        server.should_exit = True
    for thread in threads:
        await asyncio.to_thread(thread.join)


@pytest.fixture
async def connect(monkeypatch):
    """Clients of workers, or of an address, which have all the time that a busy machine needs."""
    clients = []
    monkeypatch.setattr("mintact_platform.models.workers._ABORT_SECONDS", 60.0)

    def make(*workers, **options):
        urls = [getattr(worker, "url", worker) for worker in workers]
        options = {"generate_deadline": 60, "control_deadline": 60, **options}
        clients.append(ModelServers(urls[0], urls, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
