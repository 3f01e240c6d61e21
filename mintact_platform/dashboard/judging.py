"""What judging shows: progress on standard error, and tables of what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from mintact_platform.dashboard.terminal import clock_time
from mintact_platform.evaluation.audit import ALL, SAID, Confusion, Row
from mintact_platform.evaluation.judgements import Judgement, Said
from mintact_platform.evaluation.rejudge import Tally
from mintact_platform.evaluation.statistics import Interval

NARROW = 90
"""Columns below which there is no room for everything."""

# ---- progress ----------------------------------------------------------------------------------


class JudgingDisplay(Protocol):
    """Told of every judgement."""

    def update(self, judgement: Judgement) -> None:
        """One more trajectory is done."""
        ...

    def close(self) -> None:
        """All that will come has come."""
        ...


class LiveJudging:
    """A bar that redraws itself, for a terminal.

    Args:
        console: of standard error.
        title: the judge.
        total: trajectories to judge.
    """

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._counts = _Counts()
        narrow = console.width < NARROW
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=8 if narrow else 24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
        ]
        if not narrow:
            columns.append(TimeRemainingColumn(compact=True))
        self._progress = Progress(*columns, console=console)
        shown = shorten(title, 20 if narrow else 40)
        self._task = self._progress.add_task(shown, total=total, facts="")
        self._progress.start()

    def update(self, judgement: Judgement) -> None:
        """Redraw, with a line above for a new kind of failure."""
        if line := self._counts.add(judgement):
            self._progress.console.print(Text(line))
        self._progress.update(self._task, advance=1, facts=str(self._counts))

    def close(self) -> None:
        """Leave the last bar on the screen."""
        self._progress.stop()


class PlainJudging:
    """One line every few seconds, for logs and pipes.

    Args:
        stream: where the lines go.
        title: the judge.
        total: trajectories to judge.
        every: seconds between two lines.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        title: str,
        total: int,
        *,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._title, self._total = stream, title, total
        self._every, self._clock, self._next = every, clock, clock() + every
        self._counts, self._shown = _Counts(), 0

    def update(self, judgement: Judgement) -> None:
        """Write a line if the last one is old enough, and one for a new kind of failure."""
        if line := self._counts.add(judgement):
            print(line, file=self._stream, flush=True)
        if self._clock() >= self._next:
            self._flush()

    def close(self) -> None:
        """Write how far it came, if that was not shown yet."""
        if self._counts.done > self._shown:
            self._flush()

    def _flush(self) -> None:
        counts = f"{self._counts.done}/{self._total} {self._counts}".rstrip()
        print(f"{self._title}: {counts}", file=self._stream, flush=True)
        self._shown = self._counts.done
        self._next = self._clock() + self._every


class SilentJudging:
    """Shows nothing (`--quiet`)."""

    def update(self, judgement: Judgement) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def open_judging(title: str, total: int, *, quiet: bool, stream: TextIO) -> JudgingDisplay:
    """The display that suits the stream."""
    if quiet:
        return SilentJudging()
    if stream.isatty():
        return LiveJudging(Console(file=stream), title, total)
    return PlainJudging(stream, title, total)


class _Counts:
    """What came so far, in words."""

    def __init__(self) -> None:
        self.done = 0
        self._said = dict.fromkeys(SAID, 0)
        self._reasons: set[str] = set()

    def add(self, judgement: Judgement) -> str:
        """Count; returns a line for a failure of a kind not seen before."""
        self.done += 1
        self._said[judgement.said] += 1
        if judgement.said != "failed" or judgement.reason in self._reasons:
            return ""
        self._reasons.add(judgement.reason)
        return f"{judgement.id}: no verdict: {judgement.reason}"

    def __str__(self) -> str:
        words: dict[Said, str] = {"abstain": "abstained", "environment_failure": "environment"}
        words["failed"] = "failed"
        return ", ".join(f"{self._said[k]} {word}" for k, word in words.items() if self._said[k])


# ---- tables ------------------------------------------------------------------------------------


def tally_table(rows: Sequence[Tally], *, narrow: bool = False) -> Table:
    """What a judge said, a row a domain; columns that would hold nothing are left out.

    Args:
        rows: a row a domain.
        narrow: whether there is little room; time and cost are left out then.
    """
    left_out = {"environment"} if not any(row.environment_failures for row in rows) else set()
    left_out |= {"each", "cost"} if narrow else set()
    left_out |= {"cost"} if all(row.cost is None for row in rows) else set()
    headers = ("domain", "judged", "success", "abstained", "environment", "failed", "each", "cost")
    table = _table([header for header in headers if header not in left_out])
    for row in rows:
        cells = (
            row.domain,
            str(row.judged),
            share(row.success, narrow=narrow),
            str(row.abstained),
            str(row.environment_failures),
            str(row.failed),
            brief(row.seconds, row.judged),
            money(row.cost),
        )
        named = zip(headers, cells, strict=True)
        _add(table, row.domain, [cell for header, cell in named if header not in left_out])
    return table


def confusion_table(confusion: Confusion, reference: str) -> Table:
    """Reference by judge; the one mistake that training follows stands out.

    Args:
        confusion: the counts.
        reference: what the rows are, e.g. `state check`.
    """
    columns: dict[Said, str] = {"success": "success", "failure": "failure", "abstain": "abstains"}
    columns |= {"environment_failure": "environment", "failed": "failed"}
    used = [
        said for i, said in enumerate(SAID) if i < 2 or confusion.success[i] or confusion.failure[i]
    ]
    table = _table([f"{reference} ↓  judge →", *(columns[said] for said in used)])
    for truth, counts in (("success", confusion.success), ("failure", confusion.failure)):
        cells = [Text(truth)]
        for said, count in zip(SAID, counts, strict=True):
            if said in used:
                cells.append(Text(str(count), style=verdict_style(truth, said) if count else "dim"))
        table.add_row(*cells)
    return table


def audit_table(rows: Sequence[Row], *, narrow: bool = False) -> Table:
    """Agreement and both kinds of mistake, a row a domain; one domain needs no row over all.

    Args:
        rows: a row a domain, and one over all at the end.
        narrow: whether there is little room; time and cost are left out then.
    """
    gap = "\n" if narrow else " "
    headers = ["domain", "decided", "agreement", "κ", f"false{gap}success", f"false{gap}failure"]
    priced = any(row.cost is not None for row in rows)
    table = _table(headers if narrow else [*headers, "each", *(["cost"] if priced else [])])
    for row in rows if len(rows) > 2 else rows[:1]:
        confusion = row.confusion
        part = confusion.decided < confusion.total
        cells = [
            row.domain,
            f"{confusion.decided}/{confusion.total}" if part else str(confusion.total),
            share(confusion.agreement, narrow=narrow),
            "–" if math.isnan(confusion.kappa) else f"{confusion.kappa:.2f}",
            share(confusion.false_success_rate, narrow=narrow),
            share(confusion.false_failure_rate, narrow=narrow),
        ]
        if not narrow:
            cells.append(brief(row.seconds, confusion.total))
            cells += [money(row.cost)] if priced else []
        _add(table, row.domain, cells)
    return table


def share(interval: Interval, *, narrow: bool = False) -> str:
    """`87 % [79, 92]`; on two lines where there is little room."""
    if math.isnan(interval.mean):
        return "–"
    gap = "\n" if narrow else " "
    return f"{100 * interval.mean:.0f} %{gap}[{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def brief(total: float, n: int) -> str:
    """Mean seconds of a judgement: `0.4 ms`, `1.25 s`, `2:05`; a dash where none was measured."""
    if not n or not total:
        return "–"
    seconds = total / n
    if seconds >= 60:
        return clock_time(seconds)
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.2g} ms"


def money(cost: float | None) -> str:
    """A cost with four figures, a dash for None."""
    return "–" if cost is None else f"{cost:.4g}"


def shorten(text: str, length: int) -> str:
    """At most so many characters, the last an ellipsis where some are missing."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def verdict_style(truth: str, said: str) -> str:
    """Colour of a verdict beside the truth; a false success stands out."""
    if said == truth:
        return "green"
    return {"success": "bold red", "failure": "yellow"}.get(said, "")


def _table(headers: Iterable[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, header in enumerate(headers):
        # names may be long, numbers must not be broken
        table.add_column(
            header, justify="right" if number else "left", no_wrap=number > 0, overflow="fold"
        )
    return table


def _add(table: Table, domain: str, cells: Iterable[str]) -> None:
    table.add_row(*(Text(cell) for cell in cells), style="bold" if domain == ALL else "")
