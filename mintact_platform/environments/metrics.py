"""Counters of an environment server, in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Metrics:
    """Calls by phase and status, the seconds they took, and what was lost.

    Attributes:
        reaped: leases whose client went silent.
        workers_lost: workers that died or were killed.
    """

    def __init__(self) -> None:
        self.reaped = 0
        self.workers_lost = 0
        self._calls: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def observe(self, phase: str, status: int, seconds: float) -> None:
        """One finished call."""
        self._calls[phase, status] += 1
        self._seconds[phase] += seconds  # type: ignore[assignment]  # Counter adds floats too

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything, plus the values that hold right now."""
        lines = ["# TYPE mintact_environment_calls_total counter"]
        for (phase, status), count in sorted(self._calls.items()):
            labels = f'phase="{phase}",status="{status}"'
            lines.append(f"mintact_environment_calls_total{{{labels}}} {count}")
        lines.append("# TYPE mintact_environment_call_seconds_total counter")
        for phase, seconds in sorted(self._seconds.items()):
            lines.append(f'mintact_environment_call_seconds_total{{phase="{phase}"}} {seconds:.6f}')
        totals = {"leases_reaped": self.reaped, "workers_lost": self.workers_lost}
        for name, total in totals.items():
            lines.append(f"# TYPE mintact_environment_{name}_total counter")
            lines.append(f"mintact_environment_{name}_total {total}")
        for name, value in gauges.items():
            lines.append(f"# TYPE mintact_environment_{name} gauge")
            lines.append(f"mintact_environment_{name} {value:g}")
        return "\n".join(lines) + "\n"
