"""The gate in front of model servers: closed while weights move, open otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mintact_platform.models.protocol import GenerateRequest, Generation, RolloutEngine


class Gate:
    """Counts requests in flight, and drains them: the paper's synchronisation point.

    Args:
        engine: where generations go.
    """

    def __init__(self, engine: RolloutEngine) -> None:
        self.engine = engine
        self.in_flight = 0
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate once the gate is open."""
        await self._open.wait()
        self.in_flight += 1
        self._idle.clear()
        try:
            return await self.engine.generate(request)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

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
