"""Parameter synchroniser: trainer weights to model servers every K steps."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from mintact_platform.config import Deadlines
from mintact_platform.errors import MintactError
from mintact_platform.models.gate import Gate
from mintact_platform.models.protocol import SyncMode, WeightsRef
from mintact_platform.scheduler.seat import TrainerSeat
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory

KEPT = 2


@dataclass(frozen=True, slots=True)
class Push:
    """What a push did: the version now served, how long it took, why it failed if it did."""

    version: int
    seconds: float
    error: str = ""


class ParameterSynchronizer:
    """Moves weights; the deployed version changes only after every server confirmed the new one.

    Args:
        gate: in front of the model servers.
        seat: whose trainer's weights are pushed.
        directory: `weights/<version>/` lies in it; the last two are kept.
        deadlines: `push` bounds each part.
        version: served now.
        mode: what becomes of running requests; the paper drains them.
    """

    def __init__(
        self,
        gate: Gate,
        seat: TrainerSeat,
        directory: RunDirectory,
        deadlines: Deadlines,
        *,
        version: int,
        mode: SyncMode = "drain",
    ) -> None:
        self.mode = mode
        self.gate, self.seat, self.directory = gate, seat, directory
        self.deadlines, self.version = deadlines, version

    async def push(self, step: int) -> Push:
        """Export, update, confirm. A failed push leaves the old version serving."""
        start, version = time.monotonic(), self.version + 1
        path = self.directory.weights(version)
        limit = self.deadlines.push
        try:
            await self.seat.process.export(version, str(path), deadline=limit)
            await self.gate.update(WeightsRef(path, version), mode=self.mode, deadline=limit)
        except (MintactError, TimeoutError) as error:
            seconds = time.monotonic() - start
            await self.directory.database.write(ledger.push(version, step, seconds, False))
            return Push(self.version, seconds, str(error) or "deadline passed")
        await self.seat.process.confirm(version, deadline=limit)
        seconds = time.monotonic() - start
        await self.directory.database.write(ledger.push(version, step, seconds, True))
        self.version = version
        await asyncio.to_thread(self.directory.retain_weights, KEPT)
        return Push(version, seconds)
