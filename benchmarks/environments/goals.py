"""The numbers to reach, each beside what was measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from driving import Figures

MANY = (30, 100, 300)
Steps = Mapping[str, Mapping[str, Figures]]


class Value(NamedTuple):
    """A figure that is not about steps, with its unit."""

    number: float
    unit: str = "ms"


class Goal(NamedTuple):
    """A goal and its figure.

    Attributes:
        what: in words.
        measured: the figure.
        limit: at least this much, or at most, as `least` says.
        least: the direction.
        unit: of both.
    """

    what: str
    measured: float
    limit: float
    least: bool
    unit: str

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.measured >= self.limit if self.least else self.measured <= self.limit


def goals(steps: Steps, life: Mapping[str, Value]) -> list[Goal]:
    """Every goal whose figures were measured."""
    return [*_against_openenv(steps), *_overheads(steps), *_life(life)]


def _against_openenv(steps: Steps) -> Iterator[Goal]:
    ours, theirs = steps.get("stream", {}), steps.get("openenv", {})
    for payload, alone in (("text", 1.2), ("image", 10.0)):
        one, most = f"1 {payload}", f"300 {payload}"
        if one in ours and one in theirs:
            ratio = ours[one].rate / theirs[one].rate
            yield Goal(f"steps/s over OpenEnv, one lease, {payload}", ratio, alone, True, "×")
        cells = [f"{count} {payload}" for count in MANY]
        ratios = [ours[c].rate / theirs[c].rate for c in cells if c in ours and c in theirs]
        if ratios:
            what = f"steps/s over OpenEnv, 30 leases and more, {payload} (the least)"
            yield Goal(what, min(ratios), 10.0, True, "×")
        if most in ours and most in theirs:
            ratio = ours[most].p99 / theirs[most].p99
            yield Goal(f"p99 at 300 leases over OpenEnv's, {payload}", ratio, 0.1, False, "×")


def _overheads(steps: Steps) -> Iterator[Goal]:
    inside = steps.get("in process", {})
    for transport, limit in (("http", 1.5), ("stream", 0.6)):
        for payload in ("text", "image"):
            over, under = steps.get(transport, {}).get(f"1 {payload}"), inside.get(f"1 {payload}")
            if over and under:
                what = f"{transport}: overhead of a step, {payload}, p50"
                yield Goal(what, over.p50 - under.p50, limit, False, "ms")
    cpu = [
        figures.client_cpu for cell, figures in steps.get("stream", {}).items() if "text" in cell
    ]
    if cpu:
        what = "stream: client CPU of a text step (the most)"
        yield Goal(what, max(cpu), 0.1, False, "ms")


def _life(life: Mapping[str, Value]) -> Iterator[Goal]:
    for share in ("p50", "p99"):
        name = f"acquire from a warm pool, {share}"
        if name in life:
            yield Goal(name, life[name].number, 5.0, False, "ms")
    if "boot" in life:
        boot = life["boot"].number
        yield Goal(
            "recovery from a killed worker, against a boot",
            life["recovery"].number,
            boot,
            False,
            "ms",
        )
    for name in life:
        if name.startswith("p99 beside"):
            more = life[name].number - life[name.replace("beside", "without")].number
            yield Goal(f"{name}, more than without", more, 50.0, False, "ms")
    crowd = life.get("leases at once")
    if crowd is not None and crowd.number >= MANY[-1]:
        yield Goal("leases at once", crowd.number, MANY[-1], True, crowd.unit)
