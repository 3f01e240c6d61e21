"""The `embedded` rollout engine: one model server of our own, as a child process on this host."""

from __future__ import annotations

import asyncio
import sys
from typing import Literal

from mintact_platform import processes
from mintact_platform.errors import MintactError, ModelServerError
from mintact_platform.models.client import ModelServers
from mintact_platform.models.protocol import (
    EngineSpec,
    GenerateRequest,
    Generation,
    WeightsRef,
)
from mintact_plugin_torch.settings import Count, Device, Threads


class EmbeddedEngine:
    """A model server in a child process, restarted with the current weights when it dies.

    Args:
        slots: requests that run at once, and conversations kept for their next turn.
        context: tokens of prompt and output.
        threads: torch threads of the server.
        dtype: precision of the model; anything but the trainer's makes an engine gap.
        device: torch device.
        slot_megabytes: upper bound of all slots' keys and values.
        forward_tokens: tokens of one forward.

    Attributes:
        context: see the argument; compared with the run's before anything starts.
    """

    sync_modes = ("drain", "abort_resume", "retract", "in_place")

    def __init__(
        self,
        *,
        slots: Count = 64,
        context: Count = 4096,
        threads: Threads = 1,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        device: Device = "cpu",
        slot_megabytes: Count = 4096,
        forward_tokens: Count = 2048,
    ) -> None:
        self.context = context
        self._settings = {"threads": threads, "dtype": dtype, "device": device}
        self._limits = {
            "slots": slots,
            "context": context,
            "slot_bytes": slot_megabytes * 2**20,
            "forward_tokens": forward_tokens,
        }
        self._spec: EngineSpec | None = None
        self._weights: WeightsRef | None = None
        self._child: processes.Child | None = None
        self._servers: ModelServers | None = None
        # starts, ends and updates one at a time: two children must never share a mark
        self._changing = asyncio.Lock()

    async def start(self, spec: EngineSpec) -> None:
        """Start the server; returns when it serves `spec.weights`.

        Raises:
            ModelServerError: the server ended or was not ready in time; its last lines are told.
        """
        async with self._changing:
            self._spec, self._weights = spec, spec.weights
            await self._alive()

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate; a server found dead is restarted first. Raises ModelServerError."""
        servers = self._servers
        if servers is None or self._child is None or not self._child.alive():
            async with self._changing:
                servers = await self._alive()
        return await servers.generate(request)

    async def update(
        self, weights: WeightsRef, *, mode: Literal["abort", "retract", "in_place"] = "abort"
    ) -> None:
        """Serve these weights, or raise ModelServerError and keep the old ones."""
        async with self._changing:
            await (await self._alive()).update(weights, pause=mode)
            self._weights = weights

    async def healthy(self) -> bool:
        """Whether the server serves the current weights; a dead or sick one is restarted.

        Waits while weights are being updated.
        """
        async with self._changing:
            try:
                if await (await self._alive()).healthy():
                    return True
                await self._end()
                return await (await self._alive()).healthy()
            except ModelServerError:
                return False

    async def close(self) -> None:
        """Stop the server; nothing is left behind."""
        async with self._changing:
            self._spec = None
            await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _alive(self) -> ModelServers:
        """The client of a living server, started if need be; call it under the lock."""
        if self._child is not None and not self._child.alive():
            await self._end()
        if self._servers is None:
            self._servers = await self._spawn()
        return self._servers

    async def _spawn(self) -> ModelServers:
        spec, weights = self._spec, self._weights
        if spec is None or weights is None:
            raise ModelServerError("not started", kind="unreachable", where="embedded engine")
        try:
            self._child = await processes.spawn(
                [sys.executable, "-m", "mintact_plugin_torch.engine.server"],
                {
                    **self._settings,
                    "limits": self._limits,
                    "model_path": str(weights.path.resolve()),
                    "version": weights.version,
                    "deterministic": spec.deterministic,
                },
                log=spec.run_directory / "logs" / "engine.log",
                mark=str(spec.extra.get("mark", "engine")),
                deadline=spec.deadline,
            )
        except MintactError as error:
            raise ModelServerError(
                error.what, kind="unreachable", where="embedded engine", next=error.next
            ) from error
        url = self._child.ready["url"]
        return ModelServers(
            url,
            [url],
            generate_deadline=spec.generate_deadline,
            weights=weights,
            image_transport=spec.image_transport,
            update_deadline=spec.deadline,
            concurrency=max(16, 2 * spec.active),
        )

    async def _end(self) -> None:
        child, servers = self._child, self._servers
        self._child = self._servers = None
        try:
            if servers is not None:
                await servers.aclose()
        finally:
            if child is not None:
                await child.stop()
