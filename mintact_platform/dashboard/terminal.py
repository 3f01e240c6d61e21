"""What a run shows while it runs: a live table on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mintact_platform.scheduler.progress import Display as Display
from mintact_platform.scheduler.progress import DomainSnapshot as DomainSnapshot
from mintact_platform.scheduler.progress import Snapshot as Snapshot


class LiveDisplay:
    """A table that redraws itself in place, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._started = False

    def update(self, snapshot: Snapshot) -> None:
        """Redraw."""
        if not self._started:
            self._live.start()
            self._started = True
        self._live.update(render(snapshot))

    def message(self, line: str) -> None:
        """Print above the table."""
        self._live.console.print(Text(line))

    def close(self) -> None:
        """Leave the last table on the screen."""
        if self._started:
            self._live.stop()
            self._started = False


class PlainDisplay:
    """One line every few seconds, for logs and pipes.

    Args:
        stream: where the lines go.
        every: seconds between two progress lines; a new step is shown no sooner either.
        clock: monotonic seconds.
    """

    def __init__(
        self, stream: TextIO, *, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._next = -float("inf")
        self._pending: Snapshot | None = None

    def update(self, snapshot: Snapshot) -> None:
        """Write a line if the last one is old enough."""
        self._pending = snapshot
        if self._clock() >= self._next:
            self._flush()

    def message(self, line: str) -> None:
        """Write the line."""
        print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Write the last moment, if it was not shown yet."""
        self._flush()

    def _flush(self) -> None:
        if self._pending is not None:
            self.message(line(self._pending))
            self._pending = None
            self._next = self._clock() + self._every


class SilentDisplay:
    """Shows nothing (`--quiet`)."""

    def update(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def message(self, line: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def open_display(*, quiet: bool = False, stream: TextIO | None = None) -> Display:
    """The display that suits the stream (standard error by default)."""
    stream = stream or sys.stderr
    if quiet:
        return SilentDisplay()
    if stream.isatty():
        return LiveDisplay(Console(file=stream))
    return PlainDisplay(stream)


def render(snapshot: Snapshot) -> Group:
    """The live table of a moment."""
    head = Text.assemble(
        (snapshot.name, "bold"),
        f"  step {snapshot.step}/{snapshot.steps}  weights v{snapshot.version}",
        f"  {clock_time(snapshot.seconds)}",
        (f"  {snapshot.phase}" if snapshot.phase else "", "cyan"),
    )
    # a bare bar ends without a line break, and the table would begin beside it
    bar = Padding(ProgressBar(total=max(1, snapshot.steps), completed=snapshot.step, width=60), 0)
    foot = Text("  ".join(_facts(snapshot)), style="dim")
    if not snapshot.domains:
        return Group(head, bar, foot)
    return Group(head, bar, _domains(snapshot), foot)


def line(snapshot: Snapshot) -> str:
    """The same moment as one line of text."""
    domains = ", ".join(
        f"{name} {percent(d.success)} ({d.in_flight} open, {d.queued}/{d.quota} queued)"
        for name, d in snapshot.domains.items()
    )
    head = (
        f"{clock_time(snapshot.seconds)} step {snapshot.step}/{snapshot.steps} v{snapshot.version}"
    )
    return " · ".join(filter(None, (head, snapshot.phase, domains, *_facts(snapshot))))


def percent(share: float | None) -> str:
    """A share as whole percent, a dash for None."""
    return "–" if share is None else f"{100 * share:.0f} %"


def clock_time(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _domains(snapshot: Snapshot) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("domain")
    columns = ("success", "turns", "leases", "open", "queued", "trained", "filtered", "evicted")
    for column in (*columns, "stale", "dropped", "masked"):
        table.add_column(column, justify="right")
    for name, d in snapshot.domains.items():
        turns = "–" if d.turns is None else f"{d.turns:.1f}"
        counts = (d.leases, d.in_flight, f"{d.queued}/{d.quota}", d.trained)
        lost = (d.filtered, d.evicted, d.stale, d.dropped)
        cells = (percent(d.success), turns, *map(str, (*counts, *lost)), percent(d.masked))
        table.add_row(Text(name), *cells)
    return table


def _facts(snapshot: Snapshot) -> list[str]:
    facts = []
    if snapshot.loss is not None:
        facts.append(f"loss {snapshot.loss:+.4f}")
    if snapshot.tokens_per_second is not None:
        facts.append(f"{snapshot.tokens_per_second:.0f} tokens/s")
    if snapshot.trainer_idle is not None:
        facts.append(f"trainer idle {percent(snapshot.trainer_idle)}")
    if snapshot.rollouter_idle is not None:
        facts.append(f"rollouter idle {percent(snapshot.rollouter_idle)}")
    return facts
