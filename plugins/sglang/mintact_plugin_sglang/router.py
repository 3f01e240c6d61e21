"""sglang-router as a child process, and its list of workers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from mintact_platform import processes
from mintact_platform.errors import MintactError, ModelServerError
from mintact_platform.models.sglang import failure_text
from mintact_plugin_sglang.launch import HOST, Arguments, hyphened, launch, options, refuse

DEFAULTS: Mapping[str, str | int | float | bool] = {
    "policy": "cache_aware",
    # prompts of a run begin alike: with the router's own thresholds one worker would get them all
    "balance-abs-threshold": 4,
    "balance-rel-threshold": 1.1,
    "worker-startup-check-interval": 1,
    "health-check-interval-secs": 2,
    # a request of a dead worker is tried until the router has taken that one out
    "health-failure-threshold": 2,
    "retry-max-retries": 10,
    # a worker that refuses many requests is not sick; dead ones are taken out by the engine
    "disable-circuit-breaker": True,
    "log-level": "warn",
}
"""Options of the router where nobody says otherwise."""

OURS = ("host", "port", "prometheus-host", "prometheus-port", "worker-urls", "api-key")
"""Options that this plugin sets, or that hold a secret."""

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.05


@dataclass
class Router:
    """A router's control routes, and its process where we launched it.

    Attributes:
        url: base URL; generation goes there.
        http: for its control routes.
        child: the process, None for a router of others.
        bearer: API key of the workers, which the router must be told of.
    """

    url: str
    http: httpx.AsyncClient
    child: processes.Child | None = None
    bearer: str | None = None

    def ended(self) -> bool:
        """Whether the process that we launched is gone."""
        return self.child is not None and not self.child.alive()

    async def aclose(self) -> None:
        """Close the connections, and stop the process if we launched it."""
        try:
            await self.http.aclose()
        finally:
            if self.child is not None:
                await self.child.stop()

    async def worker_states(self) -> dict[str, bool]:
        """Whether each worker is healthy in the router's eyes, by URL. Raises ModelServerError."""
        return {url: healthy for url, (_, healthy) in (await self._workers()).items()}

    async def add_worker(self, url: str, *, deadline: float = 60.0) -> None:
        """Register a worker; returns when the router holds it for healthy.

        Raises:
            ModelServerError: the router does not answer, or does not see it healthy in time.
        """
        key = {"api_key": self.bearer} if self.bearer else {}
        await self._call("POST", "/workers", {"url": url, **key})
        try:
            async with asyncio.timeout(deadline):
                while not (await self.worker_states()).get(url):
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ModelServerError(
                f"{url} did not become healthy within {deadline:g} s",
                kind="timeout",
                where=f"router {self.url}",
            ) from None

    async def remove_worker(self, url: str, *, deadline: float = 10.0) -> None:
        """Take a worker out; returns when it is gone from the list. Raises ModelServerError."""
        try:
            async with asyncio.timeout(deadline):
                while (known := (await self._workers()).get(url)) is not None:
                    await self._call("DELETE", f"/workers/{known[0]}", accept=(404,))
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ModelServerError(
                f"{url} was not removed within {deadline:g} s",
                kind="timeout",
                where=f"router {self.url}",
            ) from None

    async def _workers(self) -> dict[str, tuple[str, bool]]:
        reply = await self._call("GET", "/workers")
        try:
            return {
                worker["url"].rstrip("/"): (worker["id"], bool(worker["is_healthy"]))
                for worker in reply.json()["workers"]
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelServerError(
                f"its list of workers cannot be read: {error!r}",
                kind="void",
                where=f"router {self.url}",
                next="is this the address of an sglang-router, 0.3.2 or later?",
            ) from None

    async def _call(
        self,
        method: str,
        route: str,
        body: dict[str, Any] | None = None,
        *,
        accept: Sequence[int] = (),
    ) -> httpx.Response:
        where = f"router {self.url}"
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                reply = await self.http.request(method, self.url + route, json=body)
        except TimeoutError:
            raise ModelServerError("no reply", kind="timeout", where=where) from None
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            raise ModelServerError(what, kind="unreachable", where=where) from error
        if reply.status_code >= 300 and reply.status_code not in accept:
            raise ModelServerError(
                f"{method} {route}: HTTP {reply.status_code}: {failure_text(reply.content)}",
                kind="http",
                where=where,
            )
        return reply


async def launch_router(
    worker_urls: Sequence[str],
    *,
    log: Path,
    mark: str,
    deadline: float,
    args: Arguments | None = None,
    bearer: str | None = None,
) -> Router:
    """Launch a router; returns when it holds all workers for healthy.

    Args:
        worker_urls: base URLs of its first workers; none is fine.
        log: file for its output.
        mark: of its processes; no living child may share it.
        deadline: seconds until then.
        args: options of `sglang_router.launch_router`, over `DEFAULTS`.
        bearer: API key of the workers, which clients of the router send too.

    Raises:
        ModelServerError: it ended, or was not ready in time.
    """
    chosen = options({**DEFAULTS, **hyphened(args or {})})

    def command(ports: Sequence[int]) -> list[str]:
        places: dict[str, str | int | float | bool] = {"host": HOST, "port": ports[0]}
        places |= {"prometheus-host": HOST, "prometheus-port": ports[1]}
        module = [sys.executable, "-m", "sglang_router.launch_router"]
        return [*module, *options(places), *chosen]

    try:
        child = await launch(
            command, ports=2, probe="/liveness", log=log, mark=mark, deadline=deadline
        )
    except MintactError as error:
        raise ModelServerError(
            error.what, kind="unreachable", where="sglang-router", next=error.next
        ) from error
    router = Router(child.ready["url"], control_client(bearer), child, bearer)
    try:
        await asyncio.gather(*(router.add_worker(url, deadline=deadline) for url in worker_urls))
    except BaseException:
        await processes.finish(router.aclose())
        raise
    return router


def control_client(bearer: str | None) -> httpx.AsyncClient:
    """An HTTP client for control routes; deadlines are the callers'."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    return httpx.AsyncClient(headers=headers, timeout=None, trust_env=False)


def check_arguments(arguments: Arguments) -> None:
    """Refuse options that this plugin sets itself. Raises ConfigurationError."""
    refuse(
        arguments, OURS, where="rollout.params.router_args", chosen="hosts, ports, workers and keys"
    )
