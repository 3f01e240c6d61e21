"""Success before and after a run, per domain, with intervals: as text, markdown, terminal table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from mintact_platform.dashboard.history import History, Rate, Rollout, rate
from mintact_platform.evaluation.statistics import (
    Interval,
    mcnemar,
    mean_of_rates,
    rate_difference,
    wilson,
)

MEAN = "mean"
UNKNOWN = Interval(math.nan, -1.0, 1.0)
HEADERS = ("domain", "episodes", "before", "after", "change", "p")


class Row(NamedTuple):
    """One domain, or the mean over all of them.

    Attributes:
        domain: name, or `mean`.
        before: counts of the first evaluation.
        after: counts of the last one.
        first: success before, with its Wilson 95 % interval.
        last: success after, with its interval.
        change: last − first, with its interval.
        p: exact McNemar p-value over the tasks both played, None when there are none.
    """

    domain: str
    before: Rate
    after: Rate
    first: Interval
    last: Interval
    change: Interval
    p: float | None = None

    @property
    def ran(self) -> bool:
        """Whether the newest evaluation holds live episodes."""
        return self.after.n > 0

    @property
    def compared(self) -> bool:
        """Whether both evaluations hold live episodes."""
        return self.before.n > 0 and self.after.n > 0


def before_after(history: History) -> list[Row]:
    """A row a domain, the mean of those that ran last; empty before any evaluation.

    A run with one evaluation only (`mintact eval`) has rows without a `before`.
    """
    first, last = _ends(history.evaluations)
    if not first and not last:
        return []
    rows = [_row(domain, first, last) for domain in history.domains]
    ran = [row for row in rows if row.ran]
    return [*rows, _mean(ran)] if len(ran) > 1 else rows


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, in the order of `HEADERS`."""
    if not row.ran and not row.before.n:
        return row.domain, "–", "not run", "not run", "–", "–"
    masked = row.before.masked + row.after.masked
    counts = f"{row.before.n} / {row.after.n}" if row.before.n else str(row.after.n)
    episodes = f"{counts} ({masked} masked)" if masked else counts
    p = "–" if row.p is None else ("< 0.001" if row.p < 0.001 else f"{row.p:.3f}")
    return row.domain, episodes, share(row.first), share(row.last), points(row.change), p


def rich_table(rows: Sequence[Row]) -> Table:
    """For a terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for header in HEADERS:
        table.add_column(header, justify="left" if header == "domain" else "right")
    for row in rows:
        style = "bold" if row.domain == MEAN else ""
        table.add_row(*(Text(cell, style=style) for cell in cells(row)))
    return table


def markdown(rows: Sequence[Row]) -> str:
    """For a document."""
    lines = ["| " + " | ".join(HEADERS) + " |", "|---" + "|---:" * (len(HEADERS) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(cells(row)) + " |" for row in rows)])


def share(interval: Interval) -> str:
    """`0.87 [0.79, 0.92]` as percent."""
    if math.isnan(interval.mean):
        return "–"
    return f"{100 * interval.mean:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def points(change: Interval) -> str:
    """A change in percentage points, signed."""
    if math.isnan(change.mean):
        return "–"
    return f"{100 * change.mean:+.0f} [{100 * change.low:+.0f}, {100 * change.high:+.0f}]"


def _ends(evaluations: Sequence[Rollout]) -> tuple[list[Rollout], list[Rollout]]:
    """Those labelled `before`, and of `after`, else of the others, those of the newest step."""
    first = [r for r in evaluations if r.label == "before"]
    rest = [r for r in evaluations if r.label == "after"]
    rest = rest or [r for r in evaluations if r.label != "before"]
    newest = max((r.step for r in rest), default=0)
    return first, [r for r in rest if r.step == newest]


def _row(domain: str, first: Sequence[Rollout], last: Sequence[Rollout]) -> Row:
    one, two = ([r for r in side if r.domain == domain] for side in (first, last))
    before, after = rate(one), rate(two)
    a, b = before[:2], after[:2]
    change = rate_difference(a, b) if before.n and after.n else UNKNOWN
    return Row(domain, before, after, wilson(*a), wilson(*b), change, _p(one, two))


def _mean(rows: Sequence[Row]) -> Row:
    first = mean_of_rates([row.before[:2] for row in rows])
    last = mean_of_rates([row.after[:2] for row in rows])
    change = UNKNOWN
    if all(row.compared for row in rows):
        mean = last.mean - first.mean
        down = math.hypot(last.mean - last.low, first.high - first.mean)
        up = math.hypot(last.high - last.mean, first.mean - first.low)
        change = Interval(mean, mean - down, mean + up)
    return Row(MEAN, _sum(r.before for r in rows), _sum(r.after for r in rows), first, last, change)


def _sum(rates: Iterable[Rate]) -> Rate:
    return Rate(*map(sum, zip(*rates, strict=True)))


def _p(first: Sequence[Rollout], last: Sequence[Rollout]) -> float | None:
    one = {r.task: r.success for r in first if r.live}
    two = {r.task: r.success for r in last if r.live}
    common = one.keys() & two.keys()
    if not common:
        return None
    gained = sum(two[task] and not one[task] for task in common)
    return mcnemar(gained, sum(one[task] and not two[task] for task in common))
