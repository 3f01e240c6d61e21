"""The client's side of a lease: exclusive use of one environment instance over HTTP."""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn

import httpx

from mintact_platform.environments import wire
from mintact_platform.environments.wire import ErrorBody, ImageFormat, Observation
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, LeaseExpired
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

_LIMITS = httpx.Limits(max_connections=2, max_keepalive_connections=1, keepalive_expiry=600.0)
_RETRY_AFTER = 0.05
_UNREACHABLE_AFTER = 3.0
"""Seconds of refused connections after which a server is given up: its leases died with it."""
_HEADERS = {
    "content-type": wire.MSGPACK,
    "accept": wire.MSGPACK,
    wire.PROTOCOL_HEADER: str(wire.PROTOCOL),
}


class Lease:
    """One leased instance, with an HTTP connection of its own: a shared pool costs ten times more.

    Every call has a deadline in seconds. A reply that gets lost is asked for again under the same
    name inside the deadline; the server answers from its record, so nothing is executed twice.

    Attributes:
        id: the lease's name at the server.
        instance: name of the instance, for logs and failures.
        server: URL.
        environment: its name.
        description: `domain` and `action_space` of the environment.
        token: fencing token.
        failure: the first failure seen on this lease.
    """

    def __init__(
        self, connection: Connection, environment: str, created: Mapping[str, Any]
    ) -> None:
        self._connection = connection
        self.server = connection.url
        self.environment = environment
        self.id: str = created["lease"]
        self.token: str = created["token"]
        self.instance: str = f"{environment}@{created['instance']}"
        self.description = {key: created.get(key) for key in ("domain", "action_space")}
        self.failure: EnvironmentFailure | None = None
        self._episode = ""
        self._unfinished = False

    @classmethod
    async def create(
        cls,
        server_url: str,
        *,
        environment: str,
        params: Mapping[str, Any] | None = None,
        key: str,
        ttl: float = 60.0,
        image_format: ImageFormat = "png",
        deadline: float,
        bearer: str | None = None,
        python: str | None = None,
    ) -> Lease:
        """Lease an instance; its boot counts inside the deadline.

        Args:
            server_url: of an environment server.
            environment: registered name, or `module:attribute`.
            params: the environment's parameters.
            key: unique for this lease; asking again under it finds the same lease.
            ttl: seconds the lease lives without a call or heartbeat.
            image_format: encoding of screenshots.
            deadline: seconds.
            bearer: token of a server that wants one.
            python: interpreter of the worker, one that the server allows.

        Raises:
            EnvironmentFailure: phase `create`; kind `full`, `timeout`, `unreachable`, …
            ConfigurationError: the server refuses the request for good.
        """
        connection = Connection(server_url, bearer)
        body = {
            "key": key,
            "environment": environment,
            "params": dict(params or {}),
            "ttl_s": ttl,
            "image_format": image_format,
            "python": python,
        }
        try:
            created = await connection.post("create", "/v1/leases", body, deadline)
        except BaseException as error:
            known = isinstance(error, EnvironmentFailure | ConfigurationError)
            if not known or getattr(error, "kind", "") == "timeout":
                # the lease may exist without our knowing its name
                await finish(connection.cancel(key))
            await finish(connection.close())
            raise
        return cls(connection, environment, created)

    @property
    def healthy(self) -> bool:
        """Whether it can serve another episode: no failure seen, no call left unfinished."""
        return self.failure is None and not self._unfinished

    async def reset(self, *, episode: str, task: Task, seed: int, deadline: float) -> Observation:
        """Start an episode.

        Args:
            episode: unique name of the episode; the same name gets the same reply.
            task: handed to the environment as `options["task"]`.
            seed: of the environment.
            deadline: seconds.

        Raises:
            EnvironmentFailure: phase `reset`.
        """
        self._episode = episode
        body = {"episode": episode, "task": task.to_json(), "seed": seed}
        return await self._observe("reset", body, deadline)

    async def step(self, *, step: int, action: Mapping[str, Any], deadline: float) -> Observation:
        """Carry out one call of the agent.

        Args:
            step: number of the step in its episode, counted from 0.
            action: `{"name", "arguments"}`, coordinates in pixels.
            deadline: seconds.

        Raises:
            EnvironmentFailure: phase `step`.
        """
        body = {"step": step, "action": dict(action), "episode": self._episode}
        return await self._observe("step", body, deadline)

    async def evaluate(self, *, deadline: float) -> StateCheck | None:
        """The environment's reading of its final state, None where it has none.

        Raises:
            EnvironmentFailure: phase `evaluate`.
        """
        check = (await self._call("evaluate", {}, deadline)).get("check")
        return None if check is None else StateCheck(**check)

    async def release(self, *, deadline: float = 10.0) -> None:
        """Give the lease back, even when cancelled meanwhile; never raises a failure."""
        try:
            await finish(self._release(deadline))
        finally:
            await finish(self._connection.close())

    async def _release(self, deadline: float) -> None:
        try:
            await self._connection.request(
                "close", "DELETE", f"/v1/leases/{self.id}", None, deadline, token=self.token
            )
        except EnvironmentFailure:
            pass  # the server reaps what it still holds

    async def _observe(self, phase: str, body: Mapping[str, Any], deadline: float) -> Observation:
        values = await self._call(phase, body, deadline)
        try:
            return Observation.unpack(values)
        except wire.WireError as error:
            self.failure = EnvironmentFailure(
                str(error), phase=phase, kind="invalid", where=self.instance
            )
            raise self.failure from None

    async def _call(self, phase: str, body: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        self._unfinished = True
        try:
            values = await self._connection.post(
                phase, f"/v1/leases/{self.id}/{phase}", body, deadline, token=self.token
            )
        except EnvironmentFailure as failure:
            self.failure = self.failure or failure
            raise
        self._unfinished = False
        return values


class Connection:
    """HTTP calls to one server, repeated inside their deadline when a reply is lost.

    Args:
        url: of the server.
        bearer: token, if the server wants one.
    """

    def __init__(self, url: str, bearer: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {**_HEADERS, **({"authorization": f"Bearer {bearer}"} if bearer else {})}
        self._http = self._open()

    async def post(
        self, phase: str, path: str, body: Mapping[str, Any], deadline: float, *, token: str = ""
    ) -> dict[str, Any]:
        """Post a message that may be repeated; see `request`."""
        return await self.request(phase, "POST", path, body, deadline, token=token)

    async def request(
        self,
        phase: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        deadline: float,
        *,
        token: str = "",
    ) -> dict[str, Any]:
        """Send a message and read the reply.

        The server gets the time that is left, less a margin in which its own typed answer can
        arrive. An attempt waits for at most half of it: then the same call is asked again on a
        new connection and joins the one still running.

        Raises:
            EnvironmentFailure: typed; kind `timeout` once the deadline passed.
            ConfigurationError: the request is wrong.
        """
        start = time.monotonic()
        end, reached, lost = start + deadline, start, "no reply"
        while (left := end - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(max(left / 2, min(left, 1.0))):
                    reply = await self._send(method, path, body, left, token)
            except (httpx.TransportError, TimeoutError) as error:
                lost = f"{type(error).__name__}: {error}".rstrip(": ")
                await self._renew()
                if not isinstance(error, httpx.ConnectError):
                    reached = time.monotonic()
                elif time.monotonic() - reached > _UNREACHABLE_AFTER:
                    break
                await asyncio.sleep(_RETRY_AFTER)
                continue
            if reply.status_code < 400:
                return self._read(phase, reply)
            if reply.status_code >= 500:
                await self._renew()
            if reply.status_code not in (502, 503, 504) or wire.PROTOCOL_HEADER in reply.headers:
                self._raise(phase, reply)
            reached, lost = time.monotonic(), f"HTTP {reply.status_code} from a proxy"
            await asyncio.sleep(_RETRY_AFTER)
        late = time.monotonic() >= end
        what = f"no answer within {deadline:g} s" if late else "the server cannot be reached"
        kind = "timeout" if late else "unreachable"
        raise EnvironmentFailure(f"{what} ({lost})", phase=phase, kind=kind, where=self.url)

    async def cancel(self, key: str, deadline: float = 10.0) -> None:
        """Give back whatever lease this key made or is about to make."""
        try:
            path = f"/v1/leases?{httpx.QueryParams(key=key)}"
            await self.request("create", "DELETE", path, None, deadline)
        except (EnvironmentFailure, ConfigurationError):
            pass  # unreachable: the lease ends by its time to live

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, left: float, token: str
    ) -> httpx.Response:
        content = None
        if body is not None:
            margin = min(0.5, left / 4)
            content = wire.pack({**body, "deadline_s": left - margin})
        headers = {**self._headers, wire.TOKEN_HEADER: token} if token else self._headers
        request = httpx.Request(method, self.url + path, headers=headers, content=content)
        reply = await self._http.handle_async_request(request)
        await reply.aread()
        return reply

    def _read(self, phase: str, reply: httpx.Response) -> dict[str, Any]:
        try:
            return wire.loads(reply.content, reply.headers.get("content-type", ""))
        except wire.WireError as error:
            raise EnvironmentFailure(
                f"not our protocol: {error}", phase=phase, kind="invalid", where=self.url
            ) from None

    def _raise(self, phase: str, reply: httpx.Response) -> NoReturn:
        try:
            media = reply.headers.get("content-type", "")
            error = ErrorBody.unpack(wire.loads(reply.content, media))
        except wire.WireError:
            error = ErrorBody("invalid", phase, f"HTTP {reply.status_code}: {reply.text[:200]!r}")
        if reply.status_code in (400, 401, 413, 426):
            raise ConfigurationError(error.message, where=self.url)
        failure = LeaseExpired if reply.status_code == 410 else EnvironmentFailure
        raise failure(
            error.message,
            phase=phase,
            kind=error.kind,
            retryable=error.retryable,
            log_tail=error.log_tail,
            where=f"{self.url} ({phase})",
        )

    async def _renew(self) -> None:
        """Never reuse a connection after a failure: its next reply may be another call's."""
        old, self._http = self._http, self._open()
        await old.aclose()

    def _open(self) -> httpx.AsyncHTTPTransport:
        """Httpx without its client: no proxies from the environment, cookies, redirects.

        It has no timeouts, every request runs under `asyncio.timeout`.
        """
        context = _tls(self.url.startswith("https:"))
        return httpx.AsyncHTTPTransport(verify=context, limits=_LIMITS, trust_env=False)


async def finish(work: Coroutine[Any, Any, Any]) -> None:
    """Run to the end even when cancelled meanwhile, then let the cancellation go on.

    The work must have a deadline of its own.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


@functools.cache
def _tls(real: bool) -> ssl.SSLContext:
    """One context for all clients; building it reads the certificate store (20 ms)."""
    return ssl.create_default_context() if real else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
