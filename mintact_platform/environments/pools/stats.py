"""A pool in numbers: what it holds, and how long things took lately."""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass, field

KEPT = 512


class Timings:
    """The seconds that the last few hundred of something took.

    Attributes:
        count: of all, also of those forgotten.
        total: seconds of all.

    Example:
        >>> some = Timings()
        >>> for seconds in (3.0, 1.0, 2.0):
        ...     some.add(seconds)
        >>> some.quantile(0.5), some.count
        (2.0, 3)
    """

    __slots__ = ("_last", "_sorted", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._last: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.total += seconds
        if len(self._last) == KEPT:
            del self._sorted[bisect.bisect_left(self._sorted, self._last.popleft())]
        self._last.append(seconds)
        bisect.insort(self._sorted, seconds)

    def quantile(self, share: float) -> float | None:
        """The value that this share of the kept ones does not exceed, None without any."""
        if not self._sorted:
            return None
        return self._sorted[min(len(self._sorted) - 1, int(share * len(self._sorted)))]

    def __repr__(self) -> str:
        half, most = self.quantile(0.5), self.quantile(0.95)
        if half is None or most is None:
            return "Timings(none)"
        return f"Timings({self.count}, p50 {half:.4g} s, p95 {most:.4g} s)"


@dataclass(slots=True)
class PoolStats:
    """A pool in numbers; `idle + busy + starting` is what it should hold.

    Attributes:
        idle: leases that wait for a rollout, those reset ahead among them.
        busy: leases in use.
        starting: instances that boot, or that are reset after a failure.
        ahead: episodes reset ahead, or about to be.
        failed: instances lost since the start.
        mended: instances that a reset brought back after their environment raised.
        acquired: leases handed out since the start.
        found: leases handed out whose episode had been reset ahead.
        acquire: seconds a rollout waited for a lease.
        boot: seconds until a new lease had its instance.
        reset: seconds of a reset.
        step: seconds of a step.
        recovery: seconds from the loss of an instance until its successor was idle.
        last_success: when a step last succeeded, in monotonic seconds; None before the first.
    """

    idle: int = 0
    busy: int = 0
    starting: int = 0
    ahead: int = 0
    failed: int = 0
    mended: int = 0
    acquired: int = 0
    found: int = 0
    acquire: Timings = field(default_factory=Timings)
    boot: Timings = field(default_factory=Timings)
    reset: Timings = field(default_factory=Timings)
    step: Timings = field(default_factory=Timings)
    recovery: Timings = field(default_factory=Timings)
    last_success: float | None = None

    def succeeded(self, now: float) -> None:
        """A step succeeded."""
        self.last_success = now

    def timings(self) -> dict[str, Timings]:
        """What is measured, by name."""
        return {
            "acquire": self.acquire,
            "boot": self.boot,
            "reset": self.reset,
            "step": self.step,
            "recovery": self.recovery,
        }

    def figures(self) -> dict[str, float]:
        """What is worth keeping: quantiles in seconds, instances lost, share reset ahead."""
        found = {"lost": float(self.failed)}
        if self.acquired:
            found["ahead"] = self.found / self.acquired
        for name, some in self.timings().items():
            for label, share in (("p50", 0.5), ("p95", 0.95)):
                value = some.quantile(share)
                if value is not None:
                    found[f"{name}_{label}"] = value
        return found
