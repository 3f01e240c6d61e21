"""The HTTP client of model servers that speak SGLang's native routes.

Generation goes to one URL, a server's or a router's; control calls go to every worker, since a
router forwards none of them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from typing import Any

import httpx

from mintact_platform.errors import ModelServerError
from mintact_platform.models.inline import InlineImages
from mintact_platform.models.lines import Lines
from mintact_platform.models.protocol import GenerateRequest, Generation, WeightsRef
from mintact_platform.models.sglang import failure_text, generate_body, parse_generation
from mintact_platform.models.workers import Carry, Pause, Workers, unreachable

OFF_LOOP_BYTES = 64 * 1024
"""Bodies above this are encoded and decoded in a thread."""

_JSON = {"Content-Type": "application/json"}
# SGLang's answer to a rid that it has not forgotten yet; an abort is only under way when it returns
_DUPLICATE, _FORGET_SECONDS = b"Duplicate request ID", 0.1
# the router's answer while it still sends to a worker that died; it finds out within seconds
_LOST, _LOST_SECONDS, _LOST_TIMES = b"error sending request", 0.5, 20


class ModelServers:
    """Model servers as the rollouter uses them.

    Args:
        generate_url: base URL of the server or router that generates.
        worker_urls: base URLs of all workers, for control calls.
        generate_deadline: seconds a generation may take, its retry included.
        weights: what the workers serve at present, if known.
        image_transport: `path`, `inline`, or `auto`: paths until a server fails on a request that
            it then answers with inline data.
        update_deadline: seconds a weight update may take.
        control_deadline: seconds of a health check, an abort, a continue.
        concurrency: upper bound of connections for generation.
        bearer: API key of the servers.
        inline_bytes: base64 characters kept for reuse.
        carry: how weights get to a worker; it reads them from disk where none is given.
    """

    def __init__(
        self,
        generate_url: str,
        worker_urls: Sequence[str],
        *,
        generate_deadline: float,
        weights: WeightsRef | None = None,
        image_transport: str = "auto",
        update_deadline: float = 600.0,
        control_deadline: float = 10.0,
        concurrency: int = 256,
        bearer: str | None = None,
        inline_bytes: int = 256 * 2**20,
        carry: Carry | None = None,
    ) -> None:
        self.image_transport = image_transport
        self.redirect(generate_url)
        self._deadline = generate_deadline
        self._inline = InlineImages(inline_bytes)
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        tls = httpx.create_ssl_context(trust_env=False)
        self._lines = Lines(tls, concurrency)
        self._headers = {**_JSON, **headers}
        self.workers = Workers(
            worker_urls,
            _connect(headers, tls, 4 * max(4, len(worker_urls))),
            weights=weights,
            update_deadline=update_deadline,
            deadline=control_deadline,
            carry=carry,
        )

    @property
    def weights(self) -> WeightsRef | None:
        """What the workers serve."""
        return self.workers.weights

    def redirect(self, generate_url: str) -> None:
        """Generate at another base URL from now on; what is under way stays where it is."""
        self._url = f"{generate_url.rstrip('/')}/generate"

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate once; a lost connection is tried once more under the same rid.

        A server that still knows the rid, from the connection that was lost, is asked until it has
        forgotten it.

        A request that is cancelled, or not answered in time, is aborted on the servers. An answer
        from weights older than those served is thrown away: its server, which came late or was
        restarted, is brought to the current ones and asked again.

        Raises:
            ModelServerError: kind `timeout`, `unreachable`, `http` (refused or failed), `void`
                (ids and log-probabilities do not match) or `aborted` (ended without a token).
        """
        try:
            async with asyncio.timeout(self._deadline):
                return await self._current(request)
        except TimeoutError:
            await self.workers.abort(request.rid)
            raise ModelServerError(
                f"no reply within {self._deadline:g} s",
                kind="timeout",
                where=f"generate {request.rid}",
                next="raise deadlines.generate or lower rollout.active",
            ) from None
        except asyncio.CancelledError:
            await self.workers.abort(request.rid)
            raise

    async def abort(self, rid: str) -> None:
        """Ask every worker to end a request; says nothing about whether one knew it.

        SGLang ends every request whose rid begins with this one.
        """
        await self.workers.abort(rid)

    async def update(self, weights: WeightsRef, *, pause: Pause = "abort") -> None:
        """Serve these weights on every worker, or raise ModelServerError and keep the old ones.

        Args:
            weights: what to serve.
            pause: what becomes of generations in flight: ended, or paused one way or the other.
        """
        await self.workers.update(weights, pause=pause)

    async def healthy(self) -> bool:
        """Whether every worker answers and serves the current weights; laggards get them first."""
        try:
            await self.workers.catch_up()
            await self.workers.check()
        except ModelServerError:
            return False
        return True

    async def aclose(self) -> None:
        """Finish pending aborts and close all connections."""
        await self.workers.aclose()
        await self._lines.aclose()

    async def _current(self, request: GenerateRequest) -> Generation:
        wanted = self.weights
        generation = await self._ask(request)
        if wanted is None or wanted.version < 1 or not _behind(generation, wanted):
            return generation
        await self.workers.catch_up()
        generation = await self._ask(request)
        if _behind(generation, wanted):
            raise ModelServerError(
                f"generates with version {generation.versions.min()}, not {wanted.version}",
                kind="void",
                where=f"generate {request.rid}",
            )
        return generation

    async def _ask(self, request: GenerateRequest) -> Generation:
        if self.image_transport != "auto" or not request.images:
            return await self._send(request, inline=self.image_transport == "inline")
        try:
            return await self._send(request, inline=False)
        except ModelServerError as error:
            if error.kind != "http":
                raise
        generation = await self._send(request, inline=True)
        self.image_transport = "inline"
        return generation

    async def _send(self, request: GenerateRequest, *, inline: bool) -> Generation:
        body = await self._encode(request, inline)
        response = await self._post(request.rid, body)
        if response.status_code != 200:
            raise ModelServerError(
                f"HTTP {response.status_code}: {failure_text(response.content)}",
                kind="http",
                where=f"generate {request.rid}",
            )
        if len(response.content) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(parse_generation, response.content, request.rid)
        return parse_generation(response.content, request.rid)

    async def _encode(self, request: GenerateRequest, inline: bool) -> bytes:
        if inline:
            images = [await self._inline.encode(image) for image in request.images]
        else:
            images = [str(image.path.resolve()) for image in request.images]
        body = generate_body(request, images)
        if 8 * len(request.ids) + sum(map(len, images)) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(_dump, body)
        return _dump(body)

    async def _post(self, rid: str, body: bytes) -> httpx.Response:
        lost = 0
        while True:
            response = await self._deliver(rid, body)
            if response.status_code == 400 and _DUPLICATE in response.content:
                await asyncio.sleep(_FORGET_SECONDS)
            elif _lost(response) and lost < _LOST_TIMES:
                lost += 1
                await asyncio.sleep(_LOST_SECONDS)
            else:
                return response

    async def _deliver(self, rid: str, body: bytes) -> httpx.Response:
        request = httpx.Request("POST", self._url, content=body, headers=self._headers)
        try:
            return await self._lines.send(request)
        except httpx.ConnectError:
            pass
        except httpx.TransportError:
            # the server may still be generating for the lost connection
            await self.workers.abort(rid)
        try:
            # a new connection: the idle ones may have died with the first
            return await self._lines.send(request, fresh=True)
        except httpx.TransportError as error:
            raise unreachable(self._url, error) from error


def _lost(response: httpx.Response) -> bool:
    return response.status_code >= 500 and _LOST in response.content


def _behind(generation: Generation, wanted: WeightsRef) -> bool:
    return bool(len(generation.ids)) and int(generation.versions.min()) < wanted.version


def _connect(headers: dict[str, str], tls: ssl.SSLContext, connections: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers=headers,
        verify=tls,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        timeout=httpx.Timeout(None, connect=10.0),
        trust_env=False,
    )


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
