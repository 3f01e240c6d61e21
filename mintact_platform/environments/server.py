"""The environment server: the lease protocol over HTTP, `python -m …environments.server`."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from mintact_platform import processes
from mintact_platform.environments import watchdog, wire
from mintact_platform.environments.catalogue import Catalogue
from mintact_platform.environments.leases import Refusal
from mintact_platform.environments.messages import (
    CreateRequest,
    EvaluateRequest,
    HeartbeatRequest,
    ResetRequest,
    StepRequest,
    read,
)
from mintact_platform.environments.service import LeaseService, Reply
from mintact_platform.environments.wire import ErrorBody
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry

KEEP_ALIVE = 900
"""Seconds an idle connection stays open: longer than a model thinks."""
_UVICORN: dict[str, Any] = {
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

    app = FastAPI(title="Mintact environment server", lifespan=lifespan)
    app.add_middleware(_Border, bearer=bearer)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(ConfigurationError, _refused)
    app.add_exception_handler(wire.WireError, _refused)
    app.add_exception_handler(Exception, _refused)
    _add_lease_routes(app, service)
    _add_status_routes(app, service)
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
        message = read(StepRequest, await _body(request))
        return _reply(request, await service.step(lease, _token(request), message))

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
        await service.cancel(key)
        return _answer(request, {})

    @app.post("/v1/heartbeat")
    async def heartbeat(request: Request) -> Response:
        """Keep leases alive; the answer names those that are gone."""
        leases = read(HeartbeatRequest, await _body(request)).leases
        return _answer(request, {"gone": service.heartbeat(leases)})


def _add_status_routes(app: FastAPI, service: LeaseService) -> None:
    @app.get("/v1/environments")
    async def environments(request: Request) -> Response:
        """What is served, and how full the server is."""
        catalogue = service.catalogue
        served = {name: catalogue.described(name) for name in catalogue.names()}
        used = {"leases": len(service.table), "capacity": service.capacity}
        return _answer(request, {"environments": served, **used})

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
        gauges = {"leases": len(service.table), "workers": len(service.workers)}
        return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


def main() -> None:
    """Run as a child: specification on standard input, `{"url"}` when ready."""
    directory, mark = new_directory(), os.environ[processes.MARK]

    def clean() -> None:
        processes.kill_marked(mark)
        shutil.rmtree(directory, ignore_errors=True)

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
        app = create_app(_service(spec, directory, mark), bearer=_bearer(spec))
        listener = socket.create_server((spec.host, spec.port), backlog=1024)
        # inherited by accepted sockets; asyncio forgets it where the listener's protocol is 0
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = _Server(uvicorn.Config(app, **_UVICORN))
        host, port = listener.getsockname()[:2]
        server.on_ready = lambda: ready({"url": f"http://{host}:{port}"})
        await server.serve(sockets=[listener])
    finally:
        processes.kill_marked(mark)
        shutil.rmtree(directory, ignore_errors=True)
        guard.kill()
        guard.communicate()


def _service(spec: ServerSpec, directory: Path, mark: str) -> LeaseService:
    catalogue = Catalogue(Registry.discover(), spec.environments, spec.pythons)
    return LeaseService(catalogue, spec.capacity, directory, spec.logs.resolve(), mark)


class _Server(uvicorn.Server):
    """A uvicorn server that says when it answers."""

    on_ready: Any = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.on_ready is not None:
            self.on_ready()


class _Border:
    """Refuses what must not come in: another protocol, no bearer token, too large a body."""

    def __init__(self, app: Any, bearer: str | None) -> None:
        self._app = app
        self._bearer = None if bearer is None else f"Bearer {bearer}".encode()

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
        await app(scope, receive, send_with_protocol)

    def _refusal(self, headers: Mapping[bytes, bytes], path: str) -> Refusal | None:
        version = headers.get(wire.PROTOCOL_HEADER.encode(), b"").decode("latin-1")
        if version not in ("", str(wire.PROTOCOL)):
            message = f"this server speaks protocol {wire.PROTOCOL}, not {version}"
            return Refusal(426, ErrorBody("protocol", "create", message, False))
        given = headers.get(b"authorization", b"")
        if self._bearer and path != "/healthz" and not hmac.compare_digest(given, self._bearer):
            return Refusal(401, ErrorBody("unauthorised", "create", "no bearer token", False))
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > wire.MAX_REQUEST:
            return _too_large()
        return None


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
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > wire.MAX_REQUEST:
            raise _too_large()
    return wire.loads(bytes(body), _media(request, "content-type"))


def _media(request: Request, header: str) -> str:
    """Msgpack when the header says so, else JSON; a reply follows its request by default."""
    said = request.headers.get(header) or request.headers.get("content-type", "")
    if "*/*" in said:
        said = request.headers.get("content-type", "")
    return wire.MSGPACK if said.startswith(wire.MSGPACK) else wire.JSON


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
    return Response(wire.dumps(wire.unpack(reply.body), wire.JSON), media_type=wire.JSON)


async def _refused(request: Request, error: Exception) -> Response:
    """Every refusal, and a bug of ours, as a typed body."""
    if isinstance(error, Refusal):
        refusal = error
    elif isinstance(error, ConfigurationError | wire.WireError):
        refusal = Refusal(400, ErrorBody("configuration", "create", str(error), False))
    else:
        refusal = Refusal(500, ErrorBody("internal", "create", repr(error), False))
    return _error_response(refusal, _media(request, "accept"))


def _error_response(refusal: Refusal, media: str) -> Response:
    body = wire.dumps(refusal.error.pack(), media)
    headers = {"retry-after": "1"} if refusal.status == 503 else {}
    return Response(body, refusal.status, headers, media_type=media)


def _too_large() -> Refusal:
    message = f"the body is over the cap of {wire.MAX_REQUEST} bytes"
    return Refusal(413, ErrorBody("too_large", "create", message, False))


if __name__ == "__main__":
    main()
