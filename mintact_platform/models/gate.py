"""The gate in front of model servers: closed while weights move, open otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import (
    GenerateRequest,
    Generation,
    RolloutEngine,
    SyncMode,
    WeightsRef,
)


class Gate:
    """Counts requests in flight, and stops dispatch while weights move.

    Args:
        engine: where generations go.
    """

    def __init__(self, engine: RolloutEngine) -> None:
        self.engine = engine
        self.in_flight = 0
        self._cuts = 0
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate once the gate is open; what an update cut off is continued after it."""
        parts: list[Generation] = []
        while True:
            await self._open.wait()
            cuts = self._cuts
            try:
                part = await self._once(rest_of(request, parts))
            except ModelServerError as error:
                if error.kind == "aborted" and self._cuts > cuts:
                    continue
                raise
            parts.append(part)
            if part.finish != "abort" or self._cuts == cuts:
                return joined(parts)

    @asynccontextmanager
    async def drained(self, *, deadline: float) -> AsyncIterator[None]:
        """Stop dispatch, wait until no request is in flight, and reopen afterwards."""
        self._open.clear()
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def update(self, weights: WeightsRef, *, mode: SyncMode, deadline: float) -> None:
        """Serve new weights, running requests treated as the mode says.

        Args:
            weights: what to serve.
            mode: one that the engine declares.
            deadline: seconds for draining, and as many again for the update.

        Raises:
            ModelServerError: the old weights are served.
            TimeoutError: it took too long.
        """
        if mode == "drain":
            async with self.drained(deadline=deadline), asyncio.timeout(deadline):
                await self.engine.update(weights)
            return
        self._open.clear()
        try:
            async with asyncio.timeout(deadline):
                if mode == "abort_resume":
                    self._cuts += 1
                    await self.engine.update(weights)
                else:
                    # only engines that declare these modes take the argument
                    await self.engine.update(weights, mode=mode)  # type: ignore[call-arg]
        finally:
            self._open.set()

    async def _once(self, request: GenerateRequest) -> Generation:
        self.in_flight += 1
        self._idle.clear()
        try:
            return await self.engine.generate(request)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()


def rest_of(request: GenerateRequest, parts: Sequence[Generation]) -> GenerateRequest:
    """The request for what is still missing: prompt and parts, and the budget that is left."""
    done = sum(len(part.ids) for part in parts)
    if not done:
        return request
    sampling = request.sampling
    seed = None if sampling.seed is None else _next_seed(sampling.seed, done)
    left = replace(sampling, max_new_tokens=sampling.max_new_tokens - done, seed=seed)
    ids = np.concatenate([request.ids, *(part.ids for part in parts)]).astype(np.int32)
    return replace(request, rid=f"{request.rid}+{done}", ids=ids, sampling=left)


def joined(parts: Sequence[Generation]) -> Generation:
    """The parts of a generation as one; each token keeps its log-probability and version."""
    if len(parts) == 1:
        return parts[0]
    return Generation(
        ids=np.concatenate([part.ids for part in parts]),
        logprobs=np.concatenate([part.logprobs for part in parts]),
        versions=np.concatenate([part.versions for part in parts]),
        finish=parts[-1].finish,
        prompt_tokens=parts[0].prompt_tokens,
        cached_tokens=parts[0].cached_tokens,
    )


def _next_seed(seed: int, done: int) -> int:
    """Another seed: the same one would draw the same numbers for other tokens."""
    return int.from_bytes(blake2b(f"{seed}+{done}".encode(), digest_size=4).digest()) >> 1
