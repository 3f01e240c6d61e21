"""Tables on standard output: fitted to a terminal; in a pipe or a file only lists are wrapped."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Wide enough that no row is wrapped where no terminal says its width."""
LIST_WIDTH = 64
"""Columns of a list there: it may go on for ever, and everyone's lines would be as long."""
NARROW = 90
"""Columns below which there is no room for everything."""


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    whole: Collection[str] = (),
    lists: Collection[str] = (),
) -> None:
    """Print rows under headers; cells are plain text, never markup.

    Args:
        headers: one a column.
        rows: cells.
        whole: columns that are never broken.
        lists: columns that are wrapped in a pipe too.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        style = "red" if header == "error" else ""
        widest = LIST_WIDTH if header in lists and not sys.stdout.isatty() else None
        table.add_column(
            header, overflow="fold", style=style, no_wrap=header in whole, max_width=widest
        )
    for row in rows:
        table.add_row(*map(Text, row))
    print_renderable(table)


def print_renderable(table: Table) -> None:
    """Print any rich table; without the blanks at the ends of lines where it is not a terminal."""
    console = open_console()
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def open_console() -> Console:
    """Standard output: as wide as its terminal, unwrapped in a pipe or a file."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def is_narrow() -> bool:
    """Whether standard output is a terminal with little room for a table."""
    return open_console().width < NARROW
