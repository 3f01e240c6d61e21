"""The progress display on a terminal, in a pipe, and silenced."""

from __future__ import annotations

import io

from rich.console import Console

from mintact_platform.dashboard.terminal import (
    DomainSnapshot,
    LiveDisplay,
    PlainDisplay,
    SilentDisplay,
    Snapshot,
    clock_time,
    line,
    open_display,
    render,
)

MOMENT = Snapshot(
    "quickstart", 12, 40, version=6, seconds=75.4, phase="training",
    domains={
        "web": DomainSnapshot(quota=4, leases=3, in_flight=2, queued=5, success=0.5, turns=3.25),
        "[red]": DomainSnapshot(quota=4),
    },
    trainer_idle=0.12, rollouter_idle=None, loss=-0.0123, tokens_per_second=950.4,
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_holds_step_domains_and_facts():
    assert line(MOMENT) == (
        "1:15 step 12/40 v6 · training · web 50 % (2 open, 5/4 queued), [red] – (0 open, 0/4 "
        "queued) · loss -0.0123 · 950 tokens/s · trainer idle 12 %"
    )


def test_the_table_shows_every_domain_and_takes_no_name_for_markup():
    console = Console(file=io.StringIO(), width=120)
    console.print(render(MOMENT))
    text = console.file.getvalue()
    for word in ("quickstart", "12/40", "web", "[red]", "50 %", "3.2", "5/4", "trainer idle 12 %"):
        assert word in text


def test_a_pipe_gets_one_line_every_few_seconds_and_the_last_moment():
    now = [0.0]
    stream = io.StringIO()
    display = PlainDisplay(stream, every=10, clock=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        display.update(Snapshot("r", second, 40))
    display.message("pushed")
    display.close()
    display.close()
    shown = [row.split()[2] for row in stream.getvalue().splitlines() if "step" in row]
    assert shown == ["0/40", "10/40", "20/40", "24/40"]


def test_a_terminal_gets_a_live_table_that_closes_twice():
    stream = Terminal()
    display = LiveDisplay(Console(file=stream, force_terminal=True, width=120))
    display.update(MOMENT)
    display.message("a line [that] stays")
    display.close()
    display.close()
    assert "a line [that] stays" in stream.getvalue()
    assert "web" in stream.getvalue()


def test_the_display_suits_the_stream():
    assert isinstance(open_display(quiet=True), SilentDisplay)
    assert isinstance(open_display(stream=Terminal()), LiveDisplay)
    assert isinstance(open_display(stream=io.StringIO()), PlainDisplay)


def test_clock_times():
    assert [clock_time(s) for s in (5, 65, 3665)] == ["0:05", "1:05", "1:01:05"]
