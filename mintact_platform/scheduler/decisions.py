"""What the scheduler answers with: batches, changes, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.quota import DomainStatistics
from mintact_platform.training.trainer import RowRef


@dataclass(frozen=True, slots=True)
class Changes:
    """What a finished group did to others.

    Attributes:
        evicted: ids of queued groups that had to go; fate `evicted`.
    """

    evicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups for one trainer step; without groups it only reports stale ones.

    Attributes:
        step: 1-based.
        groups: in the order they are trained.
        realised: groups by domain.
        relaxed: whether the quotas were given up to fill it.
        stale: ids of groups that were found too old; fate `stale`.
        statistics: what was judged since the batch before, by domain.
    """

    step: int
    groups: tuple[QueuedGroup, ...]
    realised: Mapping[str, int]
    relaxed: bool
    stale: tuple[str, ...]
    statistics: Mapping[str, DomainStatistics] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[RowRef, ...]:
        """Members of all groups in order."""
        return tuple(row for group in self.groups for row in group.rows)


class DomainStatus(TypedDict):
    """Counts of groups of a domain.

    Keys:
        in_flight: begun and not ended.
        queued: waiting in the queue.
        accepted: ever accepted into the queue.
        batched: ever put into a batch.
        filtered: ended without being accepted, for whatever reason.
        stale: left the queue too old.
        evicted: left the queue because it was full.
        paused: whether no group may begin now.
    """

    in_flight: int
    queued: int
    accepted: int
    batched: int
    filtered: int
    stale: int
    evicted: int
    paused: bool
