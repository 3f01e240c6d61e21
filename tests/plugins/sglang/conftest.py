"""Workers without a model that speak SGLang's routes, and model directories for real ones."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from mintact_platform.models.protocol import EngineSpec, GenerateRequest, Sampling, WeightsRef

ROUTES = (
    "/abort_request",
    "/begin_weight_update",
    "/continue_generation",
    "/destroy_weights_update_group",
    "/end_weight_update",
    "/flush_cache",
    "/generate",
    "/init_weights_update_group",
    "/pause_generation",
    "/update_weights_from_disk",
    "/update_weights_from_distributed",
    "/update_weights_from_tensor",
    "/v1/loads",
)


class StandIn:
    """A worker without a model: it counts, and says which weights it was given.

    Args:
        port: to listen on; a free one by default.
        version: of the release it claims to be.
        lacks: routes that it has not.
        key: the API key it wants.
        busy_flushes: how often it refuses to flush its cache.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        version: str = "0.5.23",
        lacks: tuple[str, ...] = (),
        key: str = "",
        busy_flushes: int = 0,
    ) -> None:
        self.version, self.lacks, self.key, self.busy_flushes = version, lacks, key, busy_flushes
        self.weights, self.path = "default", ""
        self.calls: list[tuple[str, Any]] = []
        self.healthy = True
        self.hold = asyncio.Event()
        self.hold.set()
        # bound and deaf: nobody else gets the port while no stand-in listens on it
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", port))
        self.port = self.holder.getsockname()[1]
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(
            uvicorn.Config(self._app(), log_level="critical", lifespan="off", ws="none")
        )
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))

    def asked(self, route: str) -> list[Any]:
        """The bodies that a route was sent."""
        return [body for path, body in self.calls if path == route]

    async def die(self) -> None:
        """Listen no more, and drop every connection."""
        self._server.force_exit = self._server.should_exit = True
        self.hold.set()
        await self._task
        self._listener.close()

    def _app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)

        async def call(request: Request) -> Response:
            # SGLang answers to health checks without a key
            keyed = self.key and request.url.path != "/health"
            if keyed and request.headers.get("authorization") != f"Bearer {self.key}":
                return JSONResponse({"error": "Unauthorized"}, 401)
            route = request.url.path
            body = await request.json() if await request.body() else {}
            if route != "/health":
                self.calls.append((route, body))
            return await self._answer(route, body)

        for route in ROUTES:
            if route not in self.lacks:
                app.add_route(route, call, methods=["GET", "POST"])
        for route in ("/health", "/server_info", "/model_info", "/get_model_info"):
            app.add_route(route, call, methods=["GET"])
        return app

    async def _answer(self, route: str, body: Any) -> Response:
        if route == "/health":
            return Response(status_code=200 if self.healthy else 503)
        if route == "/server_info":
            return JSONResponse({"version": self.version, "tp_size": 1, "model_path": "/none"})
        if route in ("/model_info", "/get_model_info"):
            return JSONResponse({"weight_version": self.weights, "model_path": "/none"})
        if route == "/flush_cache" and self.busy_flushes:
            self.busy_flushes -= 1
            return PlainTextResponse("busy", 400)
        if route.startswith("/update_weights_from"):
            self.weights, self.path = body["weight_version"], body.get("model_path", "")
        if route == "/generate":
            await self.hold.wait()
            return JSONResponse(self._generation(body))
        return JSONResponse({"success": True, "message": ""})

    def _generation(self, body: Any) -> dict[str, Any]:
        ids = list(range(3, 3 + body["sampling_params"]["max_new_tokens"]))
        return {
            "text": "",
            "output_ids": ids,
            "meta_info": {
                "id": body["rid"],
                "finish_reason": {"type": "length", "length": len(ids)},
                "prompt_tokens": len(body["input_ids"]),
                "output_token_logprobs": [[-0.5, token, None] for token in ids],
                "weight_version": self.weights,
            },
        }


@pytest.fixture
async def stand_in() -> AsyncIterator[Callable[..., StandIn]]:
    """Makes stand-ins that end with the test."""
    made: list[StandIn] = []

    def make(*args: Any, **kwargs: Any) -> StandIn:
        made.append(StandIn(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        await one.die()
        one.holder.close()


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., EngineSpec]:
    """What an engine is told at its start."""

    def make(weights: WeightsRef | None = None, **changed: Any) -> EngineSpec:
        extra = {"mark": f"sglang-test-{os.getpid()}"}
        defaults = {"active": 8, "deadline": 120.0, "generate_deadline": 60.0, "extra": extra}
        given = {"weights": weights or WeightsRef(tmp_path, 1), "run_directory": tmp_path}
        return EngineSpec(temperature=1.0, **{**given, **defaults, **changed})

    return make


@pytest.fixture
def ask() -> Callable[..., GenerateRequest]:
    """A request of a few tokens."""

    def make(rid: str = "r", tokens: int = 4, prompt: int = 5) -> GenerateRequest:
        ids = np.arange(10, 10 + prompt, dtype=np.int32)
        return GenerateRequest(rid, ids, (), Sampling(1.0, tokens, (2,), seed=1))

    return make


@pytest.fixture
def running() -> Callable[..., Any]:
    """Starts an engine and closes it at the end of a block."""

    @asynccontextmanager
    async def run(engine: Any, spec: EngineSpec) -> AsyncIterator[Any]:
        await engine.start(spec)
        try:
            yield engine
        finally:
            await engine.close()

    return run


@pytest.fixture
def until() -> Callable[[Callable[[], bool | Awaitable[bool]]], Awaitable[None]]:
    """Waits for what will come true."""

    async def wait(condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(120):
            while True:
                value = condition()
                if await value if asyncio.iscoroutine(value) else value:
                    return
                await asyncio.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two untrained models of the same shape."""
    from mintact_plugin_torch.warmstart.tiny import make_tiny

    folder = tmp_path_factory.mktemp("models")
    return make_tiny(folder / "first", seed=0), make_tiny(folder / "second", seed=1)


@pytest.fixture(scope="session")
def sglang_python() -> str:
    """The interpreter of the environment that `make sglang-venv` makes."""
    root = Path(__file__).parents[3]
    python = root / os.environ.get("MINTACT_SGLANG_VENV", ".sglang-venv") / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no {python}; `make sglang-venv` makes it, MINTACT_SGLANG_VENV names another")
    return str(python)
