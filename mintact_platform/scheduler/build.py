"""The scheduler that a run file describes; of a run and of its simulation alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mintact_platform.config import ScheduleSection
from mintact_platform.scheduler.flow import FlowControl
from mintact_platform.scheduler.quota import Mixture
from mintact_platform.scheduler.state import Scheduler


def scheduler_of(
    quotas: Mapping[str, int],
    schedule: ScheduleSection,
    *,
    mixture: Callable[[Mapping[str, int]], Mixture],
    flow: Callable[[Mapping[str, int]], FlowControl],
    sync_every: int,
    releases: bool = True,
) -> Scheduler:
    """A fresh scheduler.

    Args:
        quotas: q_d by domain.
        schedule: the run file's section.
        mixture: bound to its parameters.
        flow: bound to its parameters.
        sync_every: K.
        releases: see `Scheduler`.
    """
    return Scheduler(
        quotas,
        mixture=mixture(quotas),
        flow=flow(quotas),
        capacity_batches=schedule.capacity_batches,
        eviction=schedule.eviction,
        fallback_after=schedule.fallback_after,
        max_staleness=schedule.max_staleness,
        on_stale=schedule.on_stale,
        sync_every=sync_every,
        mode=schedule.mode,
        fill=schedule.fill,
        releases=releases,
    )
