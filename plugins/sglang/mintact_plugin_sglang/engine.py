"""The `sglang` rollout engine: SGLang's servers behind its router, launched here or attached to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import httpx

from mintact_platform import processes
from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.client import ModelServers
from mintact_platform.models.protocol import EngineSpec, GenerateRequest, Generation, WeightsRef
from mintact_plugin_sglang.capabilities import TESTED, Capabilities
from mintact_plugin_sglang.fleet import Fleet
from mintact_plugin_sglang.places import Attached, Launched, Place
from mintact_plugin_sglang.router import Router, control_client, launch_router
from mintact_plugin_sglang.servers import EmbeddedServer, SGLangServer, interpreter
from mintact_plugin_sglang.settings import Settings
from mintact_plugin_sglang.transfer import ROUTES, Sender

_CONTROL_SECONDS = 30.0
"""Of a control call: a server on a loaded CPU answers late."""


@dataclass(kw_only=True)
class SGLangEngine(Settings):
    """Workers that generate behind a router, kept alive and at the current weights."""

    sync_modes: ClassVar[tuple[str, ...]] = ("drain", "abort_resume", "retract", "in_place")

    _fleet: Fleet | None = field(default=None, init=False, repr=False)
    _http: httpx.AsyncClient | None = field(default=None, init=False, repr=False)
    _ranks: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    async def start(self, spec: EngineSpec) -> None:
        """Launch or attach; returns when every worker serves `spec.weights`.

        Raises:
            ConfigurationError: the parameters do not fit this machine or these servers.
            ModelServerError: a worker or the router did not come up, or cannot do what is needed.
        """
        try:
            async with asyncio.timeout(spec.deadline):
                await self._start(spec)
        except BaseException as error:
            await processes.finish(self.close())
            if isinstance(error, TimeoutError):
                raise ModelServerError(
                    f"not ready within {spec.deadline:g} s",
                    kind="timeout",
                    where="sglang engine",
                    next=f"see {_logs(spec)}, or raise deadlines.start",
                ) from None
            raise

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate; asked once more where a worker or the router was lost meanwhile.

        Raises:
            ModelServerError: as `ModelServers.generate`; kind `unreachable` where no worker is
                left.
        """
        fleet = self._running()
        servers = await fleet.serving()
        changes = fleet.changes
        try:
            return await servers.generate(request)
        except ModelServerError as error:
            if not await self._worth_another_try(error, fleet, changes):
                raise
        await fleet.serving()
        return await servers.generate(request)

    async def update(
        self, weights: WeightsRef, *, mode: Literal["abort", "retract", "in_place"] = "abort"
    ) -> None:
        """Serve these weights on every living worker, or raise ModelServerError and keep the old.

        Args:
            weights: what to serve.
            mode: what becomes of running requests meanwhile.
        """
        fleet = self._running()
        for url, able in fleet.capabilities.items():
            if mode != "abort" and mode not in able.modes:
                raise ModelServerError(
                    f"SGLang {able.version} cannot pause by {mode!r}",
                    kind="old",
                    where=url,
                    next=f'use SGLang {TESTED} or later, or sync.mode = "drain"',
                )
        await fleet.update(weights, pause=mode)

    async def healthy(self) -> bool:
        """Whether every worker answers and serves the current weights.

        Those that do not are being launched again, or waited for, without being asked to.
        """
        return self._fleet is not None and await self._fleet.healthy()

    async def close(self) -> None:
        """Stop what was launched, let go of what was not; nothing is left behind."""
        fleet, self._fleet = self._fleet, None
        http, self._http = self._http, None
        if fleet is not None:
            await fleet.close()
            await fleet.servers.aclose()
        if http is not None:
            await http.aclose()

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise ModelServerError("not started", kind="unreachable", where="sglang engine")
        return self._fleet

    # ---- starting --------------------------------------------------------------------------------

    async def _start(self, spec: EngineSpec) -> None:
        server = self.server(spec) if self.mode == "launch" else None
        http = self._http = control_client(self.bearer)
        router, urls = await self._router(spec), self.worker_urls
        try:
            if self.router_url and router is not None and not urls:
                urls = tuple(await router.worker_states())
            if self.mode == "attach" and not urls:
                raise ConfigurationError(
                    f"{self.router_url} has no worker", where="rollout.params.router_url"
                )
            self.check_reach(urls)
            places = self._launched(spec, server) if server else [Attached(u, http) for u in urls]
            servers = self._client(spec, router, len(places))
        except BaseException:
            if router is not None:
                await processes.finish(router.aclose())
            raise
        ours = router is not None and router.child is not None
        self._fleet = Fleet(
            servers,
            router,
            open_router=(lambda urls: self._launch_router(spec, urls)) if ours else None,
            http=http,
            needs=ROUTES[self.transfer],
            every=self.health_seconds,
            deadline=spec.deadline,
            joined=self._joined,
        )
        discover = bool(self.router_url) and not self.worker_urls
        await self._fleet.start(places, discover=discover)

    async def _router(self, spec: EngineSpec) -> Router | None:
        if self.router_url:
            return Router(self.router_url, control_client(self.bearer), None, self.bearer)
        if not self.router or len(self.worker_urls) == 1:
            return None
        return await self._launch_router(spec, ())

    async def _launch_router(self, spec: EngineSpec, worker_urls: Sequence[str]) -> Router:
        # a request must not end at the router before it ends here
        patience = {"request-timeout-secs": int(spec.generate_deadline) + 60}
        return await launch_router(
            worker_urls,
            log=_logs(spec) / "router.log",
            mark=_mark(spec, "router"),
            deadline=spec.deadline,
            args={**patience, **(self.router_args or {})},
            bearer=self.bearer,
        )

    def _launched(self, spec: EngineSpec, server: SGLangServer | EmbeddedServer) -> Sequence[Place]:
        return [
            Launched(
                server,
                index,
                log=_logs(spec) / f"worker-{index}.log",
                mark=_mark(spec, f"worker-{index}"),
                deadline=spec.deadline,
            )
            for index in range(self.workers)
        ]

    def _client(self, spec: EngineSpec, router: Router | None, workers: int) -> ModelServers:
        client = ModelServers(
            router.url if router is not None else "",
            [""] * workers,
            generate_deadline=spec.generate_deadline,
            weights=spec.weights,
            image_transport=spec.image_transport,
            update_deadline=spec.deadline,
            control_deadline=_CONTROL_SECONDS,
            concurrency=max(16, 2 * spec.active),
            bearer=self.bearer,
            carry=None if self.transfer == "disk" else self._sender(spec, self.transfer),
        )
        # how many there will be is known, their addresses are not
        client.workers.urls = ()
        return client

    def _sender(self, spec: EngineSpec, how: Literal["tensor", "distributed"]) -> Sender:
        return Sender(
            how=how,
            python=interpreter(self.python)
            if self.python or self.mode == "launch"
            else sys.executable,
            ranks=self._ranks,
            log=_logs(spec) / "sender.log",
            mark=_mark(spec, "sender"),
            address=self.transfer_address,
            backend=self.transfer_backend,
            bearer=self.bearer,
            deadline=spec.deadline,
            bucket_bytes=self.transfer_megabytes * 2**20,
        )

    def _joined(self, url: str, able: Capabilities) -> None:
        self._ranks[url] = able.ranks

    async def _worth_another_try(self, error: ModelServerError, fleet: Fleet, changes: int) -> bool:
        """Whether a failure is that of a worker or router that is gone, or of one not known yet."""
        if error.kind == "void" and self.router_url:
            # perhaps of a worker that others added to their router, with weights of its own
            await fleet.look()
            return True
        return error.kind in ("unreachable", "http") and (fleet.lost() or fleet.changes != changes)


def _logs(spec: EngineSpec) -> Path:
    return spec.run_directory / "logs"


def _mark(spec: EngineSpec, name: str) -> str:
    return f"{spec.extra.get('mark', 'engine')}/{name}"
