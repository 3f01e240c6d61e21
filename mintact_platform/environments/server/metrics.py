"""Counters of an environment server, in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

_HISTOGRAMS = {"create": "acquire", "boot": "boot", "reset": "reset", "step": "step"}
"""Name by phase: what a `create` takes is a lease's wait, booted or handed over."""
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_PREFIX = "mintact_environment"


class Metrics:
    """Calls by phase and status, the seconds they took, and what was lost.

    Attributes:
        reaped: leases whose client went silent.
        workers_lost: workers that died or were killed.
        spares_taken: leases served by an instance that stood ready.
        stream_connections: open streams.
        last_success: moment of the last successful step by environment, monotonic clock.
    """

    def __init__(self) -> None:
        self.reaped = 0
        self.workers_lost = 0
        self.spares_taken = 0
        self.stream_connections = 0
        self.last_success: dict[str, float] = {}
        self._calls: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._buckets = {phase: [0] * (len(_BOUNDS) + 1) for phase in _HISTOGRAMS}

    def observe(self, phase: str, status: int, seconds: float) -> None:
        """One finished call."""
        self._calls[phase, status] += 1
        self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
        buckets = self._buckets.get(phase)
        if buckets is not None:
            buckets[bisect_left(_BOUNDS, seconds)] += 1

    def text(self, gauges: Mapping[str, float | Mapping[str, float]]) -> str:
        """Everything, plus the values that hold right now, some of them by environment."""
        lines = [f"# TYPE {_PREFIX}_calls_total counter"]
        for (phase, status), count in sorted(self._calls.items()):
            labels = f'phase="{phase}",status="{status}"'
            lines.append(f"{_PREFIX}_calls_total{{{labels}}} {count}")
        lines.append(f"# TYPE {_PREFIX}_call_seconds_total counter")
        for phase, seconds in sorted(self._seconds.items()):
            lines.append(f'{_PREFIX}_call_seconds_total{{phase="{phase}"}} {seconds:.6f}')
        for phase, name in _HISTOGRAMS.items():
            lines.extend(self._histogram(phase, f"{_PREFIX}_{name}_seconds"))
        totals = {
            "leases_reaped": self.reaped,
            "workers_lost": self.workers_lost,
            "spares_taken": self.spares_taken,
        }
        for name, total in totals.items():
            lines.append(f"# TYPE {_PREFIX}_{name}_total counter")
            lines.append(f"{_PREFIX}_{name}_total {total}")
        for name, value in gauges.items():
            lines.extend(_gauge(f"{_PREFIX}_{name}", value))
        return "\n".join(lines) + "\n"

    def _histogram(self, phase: str, name: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._buckets[phase], strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._seconds.get(phase, 0.0):.6f}"
        yield f"{name}_count {total}"


def _gauge(name: str, value: float | Mapping[str, float]) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    if not isinstance(value, Mapping):
        yield f"{name} {value:g}"
        return
    for environment, each in sorted(value.items()):
        yield f'{name}{{environment="{_escaped(environment)}"}} {each:g}'


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
