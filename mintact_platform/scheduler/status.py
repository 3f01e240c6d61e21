"""Keeps the display and the metrics table in step with a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from mintact_platform.config import RunConfig
from mintact_platform.scheduler.consume import Consumer
from mintact_platform.scheduler.produce import Producer
from mintact_platform.scheduler.progress import Display, DomainSnapshot, Snapshot
from mintact_platform.scheduler.runtime import Runtime
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory

PERIOD = 0.5


class Status:
    """Reads the run's objects twice a second; writes metrics once a step.

    Args:
        config: the run.
        directory: where metrics go.
        scheduler: counts by domain.
        producer: recent successes.
        runtime: leases and active rollouts.
        display: told each time.
        clock: monotonic seconds.
    """

    consumer: Consumer

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        scheduler: Scheduler,
        producer: Producer,
        runtime: Runtime,
        display: Display,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.directory, self.scheduler = config, directory, scheduler
        self.producer, self.runtime, self.display, self.clock = producer, runtime, display, clock
        self._started = clock()
        self._busy = self._samples = 0.0

    async def run(self) -> None:
        """Update until cancelled."""
        try:
            while True:
                self._samples += 1
                self._busy += min(1.0, self.runtime.rollouter.running / self._full())
                self.display.update(self.snapshot())
                await asyncio.sleep(PERIOD)
        finally:
            self.display.update(self.snapshot())

    async def record(self, step: int) -> None:
        """Write this step's rollout metrics."""
        now = time.time()
        operations = [
            ledger.metric("idle/rollouter", "", self.rollouter_idle, now),
            ledger.metric("tokens/second", "", self.tokens_per_second, now),
        ]
        for name, tally in self.producer.tally.items():
            if tally.recent:
                success = sum(tally.recent) / len(tally.recent)
                operations.append(ledger.metric("rollout/success", name, success, now))
        for name, pool in self.runtime.manager.stats().items():
            operations += [
                ledger.metric(f"environment/{what}", name, value, now)
                for what, value in pool.figures().items()
            ]
        await self.directory.database.write(*operations)

    @property
    def rollouter_idle(self) -> float:
        """Share of rollout slots that stood empty."""
        return 1 - self._busy / max(self._samples, 1.0)

    @property
    def tokens_per_second(self) -> float:
        """Supervised tokens trained a second since the start."""
        return self.consumer.pace.tokens / max(self.clock() - self._started, 1e-9)

    def snapshot(self) -> Snapshot:
        """This moment."""
        consumer, now = self.consumer, self.clock()
        return Snapshot(
            name=self.config.name,
            step=consumer.step,
            steps=self.config.trainer.steps,
            version=consumer.synchronizer.version,
            seconds=now - self._started,
            domains=self._domains(now),
            trainer_idle=consumer.pace.idle(now) if consumer.pace.tokens else None,
            rollouter_idle=self.rollouter_idle,
            loss=consumer.pace.loss,
            tokens_per_second=self.tokens_per_second,
            phase=consumer.phase,
        )

    def _full(self) -> float:
        leases = sum(domain.instances for domain in self.config.domains.values())
        return max(1, min(self.config.rollout.active, leases))

    def _domains(self, now: float) -> dict[str, DomainSnapshot]:
        counts, pools = self.scheduler.status(now), self.runtime.manager.stats()
        domains = {}
        for name, quota in self.config.quotas.items():
            tally, c = self.producer.tally[name], counts[name]
            recent = tally.recent
            domains[name] = DomainSnapshot(
                quota=quota,
                leases=pools[name].busy,
                in_flight=c["in_flight"],
                queued=c["queued"],
                accepted=c["accepted"],
                trained=c["batched"],
                filtered=tally.filtered,
                evicted=c["evicted"],
                stale=c["stale"],
                dropped=tally.dropped,
                success=sum(recent) / len(recent) if recent else None,
                turns=sum(tally.turns) / len(tally.turns) if tally.turns else None,
                masked=sum(tally.masks) / len(tally.masks) if tally.masks else None,
            )
        return domains
