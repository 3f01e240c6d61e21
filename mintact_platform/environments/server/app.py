"""The environment server: the lease protocol over HTTP, `python -m …environments.server`."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import math
import os
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from mintact_platform import processes
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import (
    CancelRequest,
    CreateRequest,
    EvaluateRequest,
    HeartbeatRequest,
    ResetRequest,
    StepRequest,
    read,
)
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server import openapi, status, watchdog
from mintact_platform.environments.server.border import Border
from mintact_platform.environments.server.calls import Reply
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.containment import Containment, Mode, choose, read_limits
from mintact_platform.environments.server.leases import Refusal
from mintact_platform.environments.server.remains import remove
from mintact_platform.environments.server.service import LeaseService
from mintact_platform.environments.server.stream import PATH, stream_of
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry

_STEP = re.compile("/v1/leases/([^/]+)/step")
KEEP_ALIVE = 900
"""Seconds an idle connection stays open: longer than a model thinks."""
BODY_DEADLINE_S = 30.0
"""For a request's body; its headers came at once, or uvicorn still waits for them."""
_UVICORN: dict[str, Any] = {
    "http": "h11",  # httptools, which uvicorn prefers, reads headers without end
    "timeout_keep_alive": KEEP_ALIVE,
    "timeout_graceful_shutdown": 1,
    "access_log": False,
    "log_level": "warning",
}


class ServerSpec(BaseModel):
    """How to run an environment server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one and reports it."""
    environments: list[str] | None = None
    """Names that may be leased; None allows all, `module:attribute` included."""
    pythons: list[str] = Field(default_factory=list)
    """Further interpreters in which workers may run."""
    capacity: int = Field(default=512, gt=0)
    """Leases at once."""
    bearer_env: str | None = None
    """Name of the environment variable that holds the bearer token."""
    bearer: str | None = None
    """The token itself, from a parent process; never written to a file."""
    logs: Path = Path("logs")
    """Directory of the workers' output."""
    containment: Mode | None = None
    """How workers are closed in: `namespace` insists on process namespaces, `none` does without.
    None asks `MINTACT_CONTAINMENT`, then is `auto`: namespaces where this machine allows them."""
    limits: dict[str, float] = Field(default_factory=dict)
    """Upper bounds of what a worker may use: `memory_mb`, `cpus`, `open_files`, `file_mb`,
    `disk_mb`, `processes`."""
    spares: int | dict[str, int] = 0
    """Instances to keep ready of everything that was leased, or by environment."""


def create_app(service: LeaseService, *, bearer: str | None = None) -> FastAPI:
    """The routes over a service; the app starts and closes it.

    Args:
        service: what does the work.
        bearer: token every call but `/healthz` must carry, None for none.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.close()

    # no pages of documentation: a web page may not call, and they come from elsewhere
    app = FastAPI(
        title="Mintact environment server",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(_Checks, border=Border(bearer), service=service)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(ConfigurationError, _refused)
    app.add_exception_handler(wire.WireError, _refused)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(Exception, _refused)
    _add_lease_routes(app, service)
    _add_status_routes(app, service)
    openapi.install(app)
    return app


def _add_lease_routes(app: FastAPI, service: LeaseService) -> None:
    @app.post("/v1/leases")
    async def create(request: Request) -> Response:
        """Lease an instance exclusively."""
        return _answer(request, await service.create(read(CreateRequest, await _body(request))))

    @app.post("/v1/leases/{lease}/reset")
    async def reset(lease: str, request: Request) -> Response:
        """Start an episode."""
        message = read(ResetRequest, await _body(request))
        return _reply(request, await service.reset(lease, _token(request), message))

    @app.post("/v1/leases/{lease}/step")
    async def step(lease: str, request: Request) -> Response:
        """Carry out one call; the same number never runs twice."""
        return await _step(service, lease, request)

    @app.post("/v1/leases/{lease}/evaluate")
    async def evaluate(lease: str, request: Request) -> Response:
        """Read the final state, outside the agent's reach."""
        message = read(EvaluateRequest, await _body(request))
        return _reply(request, await service.evaluate(lease, _token(request), message.deadline_s))

    @app.delete("/v1/leases/{lease}")
    async def release(lease: str, request: Request) -> Response:
        """Give a lease back."""
        await service.release(lease, _token(request))
        return _answer(request, {})

    @app.delete("/v1/leases")
    async def cancel(key: str, request: Request) -> Response:
        """Give back whatever this key made, and let it make nothing later."""
        await service.cancel(read(CancelRequest, {"key": key}).key)
        return _answer(request, {})

    @app.post("/v1/heartbeat")
    async def heartbeat(request: Request) -> Response:
        """Keep leases alive; the answer names those that are gone."""
        leases = read(HeartbeatRequest, await _body(request)).leases
        return _answer(request, {"gone": service.heartbeat(leases)})


def _add_status_routes(app: FastAPI, service: LeaseService) -> None:
    @app.get("/v1/environments")
    async def environments(
        request: Request, name: str | None = None, python: str | None = None
    ) -> Response:
        """What is served, and how full the server is; with `name` all about that environment."""
        if name is None:
            return _answer(request, status.overview(service))
        about = await service.catalogue.description(name, python)
        return _answer(request, {"environments": {name: about}})

    @app.get(PATH)
    async def stream(request: Request) -> Response:
        """The WebSocket of the same protocol in batches; a plain request is told to upgrade."""
        error = ErrorBody("protocol", "create", "this is a WebSocket: upgrade", False)
        return _error_response(Refusal(426, error), _media(request, "accept"))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Whether a lease could be made now."""
        full = len(service.table) >= service.capacity
        return _answer(request, {"ready": not full}, status=503 if full else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus' text format."""
        text = service.metrics.text(status.gauges(service))
        return Response(text, media_type="text/plain; version=0.0.4")


def main() -> None:
    """Run as a child: specification on standard input, `{"url"}` when ready."""
    directory, mark = new_directory(), os.environ[processes.MARK]

    def clean() -> None:
        processes.kill_marked(mark)
        remove(directory)

    spec = ServerSpec.model_validate(processes.adopt(on_orphan=clean))
    asyncio.run(serve(spec, directory=directory, mark=mark, ready=processes.ready))


def new_directory() -> Path:
    """A short-named directory for a server's instances: browsers put sockets there."""
    return Path(tempfile.mkdtemp(prefix="mintact-"))


async def serve(
    spec: ServerSpec, *, directory: Path, mark: str, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Serve until a signal, then kill every worker and remove the directory.

    Args:
        spec: how to run.
        directory: for the instances' files, see `new_directory`; deleted at the end.
        mark: unique; prefix of the mark that all workers carry.
        ready: called with `{"url"}` once requests are answered.

    Raises:
        ConfigurationError: a bind outside loopback without a bearer token.
    """
    guard = watchdog.start(mark, directory)
    try:
        bearer = _bearer(spec)
        service = await asyncio.to_thread(_service, spec, directory, mark)
        app = create_app(service, bearer=bearer)
        listener = socket.create_server((spec.host, spec.port), backlog=1024)
        # inherited by accepted sockets; asyncio forgets it where the listener's protocol is 0
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = _Server(uvicorn.Config(app, ws=stream_of(service, Border(bearer)), **_UVICORN))
        host, port = listener.getsockname()[:2]
        server.on_ready = lambda: ready({"url": f"http://{host}:{port}"})
        await server.serve(sockets=[listener])
    finally:
        processes.kill_marked(mark)
        remove(directory)
        guard.kill()
        guard.communicate()


def _service(spec: ServerSpec, directory: Path, mark: str) -> LeaseService:
    catalogue = Catalogue(Registry.discover(), spec.environments, spec.pythons)
    return LeaseService(
        catalogue,
        spec.capacity,
        directory,
        spec.logs.resolve(),
        mark,
        containment=Containment(
            choose(spec.containment), read_limits(spec.limits, "environment server")
        ),
        spares=spec.spares,
    )


class _Server(uvicorn.Server):
    """A uvicorn server that says when it answers."""

    on_ready: Any = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # what the imports made lives as long as the process: no collection need look at it
        gc.collect()
        gc.freeze()
        await super().startup(sockets)
        if self.started and self.on_ready is not None:
            self.on_ready()


class _Checks:
    """Refuses what must not come in: see `Border`, and too large a body.

    Steps go on to the service from here: routing costs as much as the step itself.
    """

    def __init__(self, app: Any, border: Border, service: LeaseService) -> None:
        self._app, self._border, self._service = app, border, service

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_protocol(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                version = str(wire.PROTOCOL).encode()
                message["headers"].append((wire.PROTOCOL_HEADER.encode(), version))
            await send(message)

        refusal = self._refusal(dict(scope["headers"]), scope["path"])
        app = self._app if refusal is None else _error_response(refusal, wire.JSON)
        step = _STEP.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if refusal is None and step is not None:
            app = await self._step(step[1], Request(scope, receive))
        if refusal is not None and refusal.status == 400:
            app.headers["connection"] = "close"  # where its body ends is not known
        await app(scope, receive, send_with_protocol)

    async def _step(self, lease: str, request: Request) -> Response:
        try:
            return await _step(self._service, lease, request)
        except Exception as error:
            return await _refused(request, error)

    def _refusal(self, headers: Mapping[bytes, bytes], path: str) -> Refusal | None:
        if b"origin" in headers:
            # a page of any site can reach a server on the visitor's machine
            message = "a web page may not call this server"
            return Refusal(403, ErrorBody("unauthorised", "create", message, False))
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # a proxy before us may have read it the other way
            message = "content-length and transfer-encoding contradict each other"
            return Refusal(400, ErrorBody("configuration", "create", message, False))
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > wire.MAX_REQUEST:
            return _too_large()
        return self._border.refusal(
            path,
            protocol=headers.get(wire.PROTOCOL_HEADER.encode(), b"").decode("latin-1"),
            authorisation=headers.get(b"authorization", b""),
        )


def _bearer(spec: ServerSpec) -> str | None:
    token = spec.bearer or (os.environ.get(spec.bearer_env, "") if spec.bearer_env else "")
    if not token and (spec.bearer_env or not _is_loopback(spec.host)):
        raise ConfigurationError(
            f"binding to {spec.host!r} needs a bearer token",
            where="environment server",
            next="put one into an environment variable and name it in bearer_env",
        )
    return token or None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _body(request: Request) -> dict[str, Any]:
    said = request.headers.get("content-type")
    if said is not None and _main_type(said) not in (wire.JSON, wire.MSGPACK):
        message = f"a body is {wire.JSON} or {wire.MSGPACK}, not {said!r}"
        raise Refusal(415, ErrorBody("configuration", _phase(request), message, False))
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > wire.MAX_REQUEST:
                    raise _too_large()
    except TimeoutError:
        message = f"the body did not come within {BODY_DEADLINE_S:g} s"
        raise Refusal(408, ErrorBody("timeout", _phase(request), message)) from None
    return wire.loads(bytes(body), _media(request, "content-type"))


def _media(request: Request, header: str) -> str:
    """Msgpack when the header says so, else JSON; a reply follows its request by default."""
    said = request.headers.get(header) or request.headers.get("content-type", "")
    if "*/*" in said:
        said = request.headers.get("content-type", "")
    return wire.MSGPACK if _main_type(said) == wire.MSGPACK else wire.JSON


def _main_type(said: str) -> str:
    """A media type without its parameters."""
    return said.partition(";")[0].strip().lower()


async def _step(service: LeaseService, lease: str, request: Request) -> Response:
    message = read(StepRequest, await _body(request))
    return _reply(request, await service.step(lease, _token(request), message))


def _phase(request: Request) -> str:
    """What a request wants to do, by the end of its path."""
    do = "release" if request.method == "DELETE" else request.url.path.rpartition("/")[2]
    return wire.PHASES.get(do, "create")


def _token(request: Request) -> str:
    return request.headers.get(wire.TOKEN_HEADER, "")


def _answer(request: Request, values: Any, status: int = 200) -> Response:
    media = _media(request, "accept")
    return Response(wire.dumps(values, media), status, media_type=media)


def _reply(request: Request, reply: Reply) -> Response:
    if reply.error is not None:
        return _error_response(Refusal(reply.status, reply.error), _media(request, "accept"))
    assert reply.body is not None
    if _media(request, "accept") == wire.MSGPACK:
        return Response(reply.body, media_type=wire.MSGPACK)
    try:
        return Response(wire.dumps(wire.unpack(reply.body), wire.JSON), media_type=wire.JSON)
    except wire.WireError as error:
        invalid = ErrorBody("invalid", _phase(request), f"the worker's reply: {error}")
        return _error_response(Refusal(500, invalid), wire.JSON)


async def _refused(request: Request, error: Exception) -> Response:
    """Every refusal, and a bug of ours, as a typed body."""
    phase = _phase(request)
    if isinstance(error, Refusal):
        refusal = error
    elif isinstance(error, ConfigurationError | wire.WireError):
        refusal = Refusal(400, ErrorBody("configuration", phase, str(error), False))
    elif isinstance(error, RequestValidationError):
        refusal = Refusal(400, ErrorBody("configuration", phase, _first_mistake(error), False))
    elif isinstance(error, HTTPException):
        what = f"{request.method} {request.url.path}: {error.detail}".lower()
        refusal = Refusal(error.status_code, ErrorBody("unknown", phase, what, False))
    else:
        refusal = Refusal(500, ErrorBody("internal", phase, repr(error), False))
    return _error_response(refusal, _media(request, "accept"))


def _first_mistake(error: RequestValidationError) -> str:
    mistake = error.errors()[0]
    return f"request: {mistake['loc'][-1]}: {mistake['msg'].lower()}"


def _error_response(refusal: Refusal, media: str) -> Response:
    body = wire.dumps(refusal.error.pack(), media)
    seconds = math.ceil(refusal.error.retry_after_s or 1)
    headers = {"retry-after": str(seconds)} if refusal.status == 503 else {}
    return Response(body, refusal.status, headers, media_type=media)


def _too_large() -> Refusal:
    message = f"the body is over the cap of {wire.MAX_REQUEST} bytes"
    return Refusal(413, ErrorBody("too_large", "create", message, False))


if __name__ == "__main__":
    main()
