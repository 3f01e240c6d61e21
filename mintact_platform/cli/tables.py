"""Tables on standard output: fitted to a terminal, unwrapped in a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Wide enough that nothing is wrapped where no terminal says its width."""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headers; cells are plain text, never markup."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold", style="red" if header == "error" else "")
    for row in rows:
        table.add_row(*map(Text, row))
    print_renderable(table)


def print_renderable(table: Table) -> None:
    """Print any rich table."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(file=sys.stdout, width=width, highlight=False).print(table)
