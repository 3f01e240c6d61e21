"""Tables on standard output: fitted to a terminal, unwrapped in a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Wide enough that nothing is wrapped where no terminal says its width."""
NARROW = 90
"""Columns below which there is no room for everything."""


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, whole: Collection[str] = ()
) -> None:
    """Print rows under headers; cells are plain text, never markup; `whole` ones are unbroken."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        style = "red" if header == "error" else ""
        table.add_column(header, overflow="fold", style=style, no_wrap=header in whole)
    for row in rows:
        table.add_row(*map(Text, row))
    print_renderable(table)


def print_renderable(table: Table) -> None:
    """Print any rich table."""
    open_console().print(table)


def open_console() -> Console:
    """Standard output: as wide as its terminal, unwrapped in a pipe or a file."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def is_narrow() -> bool:
    """Whether standard output is a terminal with little room for a table."""
    return open_console().width < NARROW
