"""The timeline of a simulated run as one picture: queue, batches, and the trainer's waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mintact_platform.dashboard import charts
from mintact_platform.dashboard.charts import Bar, Point, Series
from mintact_platform.scheduler.simulation.result import Simulation
from mintact_platform.scheduler.simulation.world import Step

BINS = 60
"""Most columns and points; steps are joined beyond."""


def picture(result: Simulation, title: str) -> str:
    """An SVG file: queued groups and batches by domain, the trainer's idle share."""
    domains = list(result.domains)
    legend = [(name, colour) for colour, name in enumerate(domains)]
    legend.append(("trainer", charts.COLOURS - 1))
    parts = [
        ("groups in the queue when a batch is formed", _queue(result, domains)),
        ("groups in a batch", _mix(result, domains)),
        ("share of time the trainer waited", _idle(result)),
    ]
    return charts.stacked(parts, title, legend)


def _queue(result: Simulation, domains: Sequence[str]) -> str:
    series = [
        Series(name, colour, _points(result, lambda step, name=name: step.queued[name]))  # type: ignore[misc]
        for colour, name in enumerate(domains)
    ]
    most = max((point.y for one in series for point in one.points), default=1.0)
    return charts.line_chart(
        series,
        label="queued groups by domain over time",
        x_label=_unit(result)[0],
        y_range=(0, 1.05 * most),
    )


def _mix(result: Simulation, domains: Sequence[str]) -> str:
    bars = [
        Bar(str(first), [_mean(steps, lambda s, d=d: s.realised[d]) for d in domains])  # type: ignore[misc]
        for first, steps in _bins(result.timeline)
    ]
    size = sum(result.timeline[0].realised.values()) if result.timeline else None
    return charts.bar_chart(
        bars, domains, label="groups in each batch by domain", x_label="step", reference=size
    )


def _idle(result: Simulation) -> str:
    points = []
    unit, scale = _unit(result)
    before = 0.0
    for _, steps in _bins(result.timeline):
        end = steps[-1].formed_at
        waited = sum(step.formed_at - step.asked_at for step in steps)
        points.append(Point(end / scale, min(1.0, waited / max(end - before, 1e-9))))
        before = end
    series = [Series("trainer", charts.COLOURS - 1, points)]
    return charts.line_chart(
        series,
        label="share of time the trainer waited, over time",
        x_label=unit,
        percent=True,
        y_range=(0, 1),
    )


def _points(result: Simulation, value: Callable[[Step], float]) -> list[Point]:
    scale = _unit(result)[1]
    return [
        Point(steps[-1].formed_at / scale, _mean(steps, value))
        for _, steps in _bins(result.timeline)
    ]


def _unit(result: Simulation) -> tuple[str, float]:
    return ("hours", 3600.0) if result.seconds > 7200 else ("minutes", 60.0)


def _mean(steps: Sequence[Step], value: Callable[[Step], float]) -> float:
    return sum(value(step) for step in steps) / len(steps)


def _bins(timeline: Sequence[Step]) -> Iterator[tuple[int, Sequence[Step]]]:
    """First step's number and the steps of each bin."""
    width = max(1, -(-len(timeline) // BINS))
    for begin in range(0, len(timeline), width):
        yield begin + 1, timeline[begin : begin + width]
