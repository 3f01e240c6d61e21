"""The HTTP client of model servers that speak SGLang's native routes.

Generation goes to one URL, a server's or a router's; control calls go to every worker, since a
router forwards none of them.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import httpx

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import (
    GenerateRequest,
    Generation,
    ImageFile,
    WeightsRef,
)
from mintact_platform.models.sglang import (
    failure_text,
    generate_body,
    parse_generation,
    version_number,
)

OFF_LOOP_BYTES = 64 * 1024
"""Bodies above this are encoded and decoded in a thread."""

_ABORT_SECONDS = 2.0
_JSON = {"Content-Type": "application/json"}


class InlineImages:
    """Data URLs of image files by digest, the most recently used ones kept.

    Args:
        limit: characters kept in all.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._encoded: OrderedDict[str, str] = OrderedDict()

    async def encode(self, image: ImageFile) -> str:
        """A data URL of the file's bytes."""
        known = self._encoded.get(image.digest)
        if known is not None:
            self._encoded.move_to_end(image.digest)
            return known
        text = await asyncio.to_thread(_data_url, image)
        if image.digest not in self._encoded:
            self._encoded[image.digest] = text
            self._held += len(text)
        while self._held > self._limit:
            self._held -= len(self._encoded.popitem(last=False)[1])
        return text


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
    ) -> None:
        self.generate_url = generate_url.rstrip("/")
        self.worker_urls = tuple(url.rstrip("/") for url in worker_urls)
        self.weights = weights
        self.image_transport = image_transport
        self._generate_deadline, self._update_deadline = generate_deadline, update_deadline
        self._control_deadline = control_deadline
        self._inline = InlineImages(inline_bytes)
        self._cleanups: set[asyncio.Task[None]] = set()
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        self._http = functools.partial(_http, headers, httpx.create_ssl_context(trust_env=False))
        self._generator = self._http(concurrency)
        # its own connections: a control call must not queue behind generations
        self._control = self._http(4 * max(1, len(self.worker_urls)))

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate once; a lost connection is tried once more under the same rid.

        A request that is cancelled, or not answered in time, is aborted on the servers.

        Raises:
            ModelServerError: kind `timeout`, `unreachable`, `http` (refused or failed), `void`
                (ids and log-probabilities do not match) or `aborted` (ended without a token).
        """
        try:
            async with asyncio.timeout(self._generate_deadline):
                return await self._ask(request)
        except TimeoutError:
            await self._abort_shielded(request.rid)
            raise ModelServerError(
                f"no reply within {self._generate_deadline:g} s",
                kind="timeout",
                where=f"generate {request.rid}",
                next="raise deadlines.generate or lower rollout.active",
            ) from None
        except asyncio.CancelledError:
            await self._abort_shielded(request.rid)
            raise

    async def abort(self, rid: str) -> None:
        """Ask every worker to end a request; says nothing about whether one knew it."""
        await asyncio.gather(*(self._abort_on(url, rid) for url in self.worker_urls))

    async def update(self, weights: WeightsRef) -> None:
        """Serve these weights on every worker.

        When one worker fails, those that took the new weights get the old ones back, and all
        continue.

        Raises:
            ModelServerError: nothing changed, or, if the way back failed too, `healthy` is false.
        """
        try:
            async with asyncio.timeout(self._update_deadline):
                await self._on_workers(self._quiesce)
                await self._on_workers(lambda url: self._load(url, weights))
            self.weights = weights
        except TimeoutError:
            await self._settle(self._restore(weights))
            raise ModelServerError(
                f"weights {weights.version} were not taken in {self._update_deadline:g} s",
                kind="timeout",
                where="weight update",
                next="raise deadlines.push",
            ) from None
        except BaseException:
            await self._settle(self._restore(weights))
            raise
        finally:
            await self._settle(self._on_workers(self._continue))

    async def healthy(self) -> bool:
        """Whether every worker answers and serves the current weights."""
        try:
            await self._on_workers(self._check)
        except ModelServerError:
            return False
        return True

    async def aclose(self) -> None:
        """Finish pending clean-up and close all connections."""
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=self._control_deadline)
        await self._generator.aclose()
        await self._control.aclose()

    # ---- generation ---------------------------------------------------------------------------

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
        response = await self._post_twice(request.rid, body)
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

    async def _post_twice(self, rid: str, body: bytes) -> httpx.Response:
        url = f"{self.generate_url}/generate"
        try:
            return await self._generator.post(url, content=body, headers=_JSON)
        except httpx.ConnectError:
            pass
        except httpx.TransportError:
            # the server may still be generating for the lost connection
            await self._abort_shielded(rid)
        try:
            # a connection of its own: other pooled ones may have died with the first
            async with self._http(1) as fresh:
                return await fresh.post(url, content=body, headers=_JSON)
        except httpx.TransportError as error:
            raise _unreachable(url, error) from error

    async def _abort_shielded(self, rid: str) -> None:
        await self._shielded(self.abort(rid))

    async def _abort_on(self, url: str, rid: str) -> None:
        try:
            body = {"rid": rid}
            await self._call("POST", url, "/abort_request", body, deadline=_ABORT_SECONDS)
        except ModelServerError:
            # a dead or deaf worker has nothing left to abort
            return

    # ---- control ------------------------------------------------------------------------------

    async def _quiesce(self, url: str) -> None:
        await self._expect(url, "/pause_generation", {"mode": "abort"})
        pause = 0.01
        while await self._status(url, "/flush_cache") != 200:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _load(self, url: str, weights: WeightsRef) -> None:
        begun = await self._status(url, "/begin_weight_update") != 404
        try:
            await self._expect(
                url,
                "/update_weights_from_disk",
                {
                    "model_path": str(weights.path.resolve()),
                    "weight_version": str(weights.version),
                    "abort_all_requests": False,
                    "flush_cache": True,
                },
                deadline=self._update_deadline,
            )
        finally:
            if begun:
                await self._expect(url, "/end_weight_update", {})
        served = await self._served(url)
        if served != weights.version:
            raise ModelServerError(
                f"serves version {served} after an update to {weights.version}", where=url
            )

    async def _restore(self, refused: WeightsRef) -> None:
        previous = self.weights
        if previous is None or previous.version == refused.version:
            return

        async def back(url: str) -> None:
            if await self._served(url) != previous.version:
                await self._load(url, previous)

        await self._on_workers(back)

    async def _continue(self, url: str) -> None:
        await self._expect(url, "/continue_generation", {})

    async def _check(self, url: str) -> None:
        response = await self._call("GET", url, "/health")
        served = await self._served(url) if response.status_code == 200 else None
        wanted = self.weights.version if self.weights else served
        if served is None or served != wanted:
            raise ModelServerError(f"serves version {served}, not {wanted}", where=url)

    async def _served(self, url: str) -> int:
        response = await self._call("GET", url, "/model_info")
        try:
            return version_number(response.json().get("weight_version"))
        except (ValueError, AttributeError):
            return -1

    async def _status(self, url: str, route: str) -> int:
        return (await self._call("POST", url, route, {})).status_code

    async def _expect(
        self, url: str, route: str, body: dict[str, Any], *, deadline: float | None = None
    ) -> None:
        response = await self._call("POST", url, route, body, deadline=deadline)
        if response.status_code != 200:
            raise ModelServerError(
                f"HTTP {response.status_code}: {failure_text(response.content)}",
                kind="http",
                where=url + route,
            )

    async def _call(
        self,
        method: str,
        url: str,
        route: str,
        body: dict[str, Any] | None = None,
        *,
        deadline: float | None = None,
    ) -> httpx.Response:
        seconds = deadline or self._control_deadline
        try:
            async with asyncio.timeout(seconds):
                return await self._control.request(method, url + route, json=body)
        except TimeoutError:
            raise ModelServerError(
                f"no reply within {seconds:g} s", kind="timeout", where=url + route
            ) from None
        except httpx.TransportError as error:
            raise _unreachable(url + route, error) from error

    async def _on_workers(self, call: Callable[[str], Awaitable[None]]) -> None:
        """Run a call on every worker to its end, then raise the first failure."""
        results = await asyncio.gather(
            *(call(url) for url in self.worker_urls), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _settle(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish clean-up even when cancelled; its failures show in `healthy`."""

        async def bounded() -> None:
            try:
                async with asyncio.timeout(self._update_deadline):
                    await work
            except (ModelServerError, TimeoutError):
                return

        await self._shielded(bounded())

    async def _shielded(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)
        await asyncio.shield(task)


def _http(headers: dict[str, str], tls: ssl.SSLContext, connections: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers=headers,
        verify=tls,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        timeout=httpx.Timeout(None, connect=10.0),
        trust_env=False,
    )


def _unreachable(where: str, error: httpx.TransportError) -> ModelServerError:
    return ModelServerError(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        kind="unreachable",
        where=where,
        next="see the server's log",
    )


def _data_url(image: ImageFile) -> str:
    content = image.path.read_bytes()
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
