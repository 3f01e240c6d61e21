"""Control calls to model servers, each to every worker: aborts, weight updates, health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal

import httpx

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.models.sglang import failure_text, version_number

_ABORT_SECONDS = 2.0

Pause = Literal["abort", "retract", "in_place"]
"""SGLang's ways to pause generation: end requests, take their cache away, or leave them."""

Carry = Callable[[str, WeightsRef, bool], Awaitable[None]]
"""Brings weights to the worker of this URL, and flushes its cache if asked; raises
ModelServerError. Called between `/begin_weight_update` and `/end_weight_update`."""


class Workers:
    """The workers of one deployment, all serving the same weights.

    Args:
        urls: base URLs.
        http: client for these calls alone, so that none queues behind a generation.
        weights: what they serve at present, if known.
        update_deadline: seconds a weight update may take.
        deadline: seconds of any other call.
        carry: how weights get to a worker; it reads them from disk where none is given.
    """

    def __init__(
        self,
        urls: Sequence[str],
        http: httpx.AsyncClient,
        *,
        weights: WeightsRef | None,
        update_deadline: float,
        deadline: float,
        carry: Carry | None = None,
    ) -> None:
        self.urls = tuple(url.rstrip("/") for url in urls)
        self.weights = weights
        self._http = http
        self._update_deadline, self._deadline = update_deadline, deadline
        self._carry = carry or self._from_disk
        self._cleanups: set[asyncio.Task[None]] = set()
        self._catching_up = asyncio.Lock()

    async def abort(self, rid: str) -> None:
        """Ask every worker to end a request, even while the caller is being cancelled."""

        async def abort() -> None:
            await asyncio.gather(*(self._abort(url, rid) for url in self.urls))

        await self._finish(abort())

    async def update(self, weights: WeightsRef, *, pause: Pause = "abort") -> None:
        """Serve these weights on every worker.

        When one worker fails, those that took the new weights get the old ones back, and all
        continue.

        Args:
            weights: what to serve.
            pause: what becomes of running requests meanwhile.

        Raises:
            ModelServerError: nothing changed, or, if the way back failed too, `check` raises.
        """
        try:
            async with asyncio.timeout(self._update_deadline):
                await self._on_all(lambda url: self._quiesce(url, pause))
                await self._on_all(lambda url: self._load(url, weights, flush=pause != "in_place"))
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
            await self._settle(self._on_all(self._continue))

    async def catch_up(self, *urls: str, anyway: bool = False) -> None:
        """Bring workers that serve other weights, late or restarted ones, to the current ones.

        Args:
            urls: of which workers; all where none is named, and others than ours may be.
            anyway: load them even where the version is the same.

        Raises:
            ModelServerError: one does not answer, or does not take them.
        """
        wanted = self.weights
        if wanted is None:
            return

        async def catch_up(url: str) -> None:
            if not anyway and await self._served(url) == wanted.version:
                return
            try:
                await self._quiesce(url, "abort")
                await self._load(url, wanted)
            finally:
                await self._settle(self._continue(url))

        async with self._catching_up:
            await self._on_all(catch_up, urls)

    async def check(self) -> None:
        """Raise ModelServerError unless every worker answers and serves the current weights."""
        await self._on_all(self._check)

    async def aclose(self) -> None:
        """Finish what is being cleaned up and close the connections."""
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=self._deadline)
        await self._http.aclose()

    # ---- one worker ----------------------------------------------------------------------------

    async def _abort(self, url: str, rid: str) -> None:
        try:
            await self._call("POST", url, "/abort_request", {"rid": rid}, deadline=_ABORT_SECONDS)
        except ModelServerError:
            # a dead or deaf worker has nothing left to abort
            return

    async def _quiesce(self, url: str, mode: Pause) -> None:
        await self._expect(url, "/pause_generation", {"mode": mode})
        if mode == "in_place":
            # what is paused keeps its keys and values, so there is nothing that could be flushed
            return
        pause = 0.01
        while await self._status(url, "/flush_cache") != 200:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _load(self, url: str, weights: WeightsRef, *, flush: bool = True) -> None:
        # servers before SGLang 0.5.23 have no brackets and need none
        begun = await self._status(url, "/begin_weight_update") != 404
        try:
            await self._carry(url, weights, flush)
        finally:
            if begun:
                await self._expect(url, "/end_weight_update", {})
        served = await self._served(url)
        if served != weights.version:
            raise ModelServerError(
                f"serves version {served} after an update to {weights.version}", where=url
            )

    async def _from_disk(self, url: str, weights: WeightsRef, flush: bool) -> None:
        body = {
            "model_path": str(weights.path.resolve()),
            "weight_version": str(weights.version),
            "abort_all_requests": False,
            "flush_cache": flush,
        }
        await self._expect(url, "/update_weights_from_disk", body, deadline=self._update_deadline)

    async def _restore(self, refused: WeightsRef) -> None:
        previous = self.weights
        if previous is None or previous.version == refused.version:
            return

        async def back(url: str) -> None:
            if await self._served(url) != previous.version:
                await self._load(url, previous)

        await self._on_all(back)

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

    # ---- calls ---------------------------------------------------------------------------------

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
        seconds = deadline or self._deadline
        try:
            async with asyncio.timeout(seconds):
                return await self._http.request(method, url + route, json=body)
        except TimeoutError:
            raise ModelServerError(
                f"no reply within {seconds:g} s", kind="timeout", where=url + route
            ) from None
        except httpx.TransportError as error:
            raise unreachable(url + route, error) from error

    async def _on_all(
        self, call: Callable[[str], Awaitable[None]], urls: Sequence[str] = ()
    ) -> None:
        """Run a call on every worker, or on these, to its end, then raise the first failure."""
        calls = (call(url) for url in urls or self.urls)
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _settle(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish the way back even when cancelled; its failures show in `check`."""

        async def bounded() -> None:
            try:
                async with asyncio.timeout(self._update_deadline):
                    await work
            except (ModelServerError, TimeoutError):
                return

        await self._finish(bounded())

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)
        await asyncio.shield(task)


def unreachable(where: str, error: httpx.TransportError) -> ModelServerError:
    """The error of a connection that failed or was lost."""
    return ModelServerError(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        kind="unreachable",
        where=where,
        next="see the server's log",
    )
