"""The message queue between producers and trainer: groups in order of acceptance, bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mintact_platform.training.trainer import RowRef

Eviction = Literal["surplus", "oldest"]


@dataclass(frozen=True, slots=True)
class QueuedGroup:
    """An admitted group. It holds references only: token arrays and images stay on disk.

    Attributes:
        id: ULID of the group.
        domain: domain name.
        oldest_version: weight version of its oldest supervised token, -1 without any.
        rows: its rollouts in member order, masked ones included.
        accepted_at: seconds, on the scheduler's clock.
    """

    id: str
    domain: str
    oldest_version: int
    rows: tuple[RowRef, ...]
    accepted_at: float


class GroupQueue:
    """First in, first out, at most `capacity` groups.

    Args:
        capacity: groups.
        eviction: who goes when it is full: `surplus`, the oldest group of the domain furthest
            over its quota, or `oldest`, the oldest of all (as in the paper).
    """

    def __init__(self, capacity: int, eviction: Eviction = "surplus") -> None:
        self.capacity, self.eviction = capacity, eviction
        self._groups: dict[str, QueuedGroup] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[QueuedGroup]:
        return iter(self._groups.values())

    def count(self, domain: str) -> int:
        """Queued groups of a domain."""
        return self._counts[domain]

    def append(self, group: QueuedGroup) -> None:
        """Append a group, whatever the capacity."""
        self._groups[group.id] = group
        self._counts[group.domain] += 1

    def put(self, group: QueuedGroup, quotas: Mapping[str, int]) -> list[QueuedGroup]:
        """Append a group; returns those evicted for it when the queue was full."""
        self.append(group)
        evicted: list[QueuedGroup] = []
        while len(self._groups) > self.capacity:
            evicted.append(self._evictable(quotas))
            self._drop(evicted[-1])
        return evicted

    def take(self, limits: Mapping[str, int], total: int) -> list[QueuedGroup]:
        """Remove and return the oldest groups, at most `limits[domain]` of each, `total` in all."""
        left = dict(limits)

        def wanted(group: QueuedGroup) -> bool:
            if sum(limits.values()) - sum(left.values()) >= total or left.get(group.domain, 0) < 1:
                return False
            left[group.domain] -= 1
            return True

        return self.remove(wanted)

    def remove(self, chosen: Callable[[QueuedGroup], bool]) -> list[QueuedGroup]:
        """Remove and return the groups `chosen` says, asked once each in order."""
        removed = [group for group in self._groups.values() if chosen(group)]
        for group in removed:
            self._drop(group)
        return removed

    def _drop(self, group: QueuedGroup) -> None:
        del self._groups[group.id]
        self._counts[group.domain] -= 1

    def _evictable(self, quotas: Mapping[str, int]) -> QueuedGroup:
        if self.eviction == "oldest":
            return next(iter(self))
        surplus = {d: n - quotas.get(d, 0) for d, n in self._counts.items() if n}
        largest = max(surplus.values())
        return next(group for group in self if surplus[group.domain] == largest)
