"""The contest of steps: every contestant over every cell, in turns, so noise hits all alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from contestants import Client, Contestant, Unavailable, running
from driving import Cell, Figures

Results = dict[str, dict[str, Figures]]
"""By contestant, by `key` of the cell."""


def key(cell: Cell) -> str:
    """Name of a cell in results, e.g. `30 text`."""
    return f"{cell.sessions} {'image' if cell.image else 'text'}"


async def contest(
    entries: Mapping[str, Callable[[], Contestant]],
    cells: Sequence[Cell],
    *,
    repetitions: int,
    logs: Path,
    say: Callable[[str], None],
) -> Results:
    """Measure all contestants; the median of the repetitions of each figure.

    Args:
        entries: makes each contestant; one that is unavailable is told and left out.
        cells: in order.
        repetitions: rounds over all cells and contestants.
        logs: directory for the servers' output.
        say: told about progress.
    """
    collected: dict[str, dict[str, list[Figures]]] = {}
    async with AsyncExitStack() as stack:
        field: list[tuple[Contestant, Client]] = []
        for name, prepare in entries.items():
            try:
                contestant = prepare()
            except Unavailable as error:
                say(f"{name}: left out, {error}")
                continue
            field.append((contestant, await stack.enter_async_context(running(contestant, logs))))
        for number in range(1, repetitions + 1):
            for cell in cells:
                say(f"round {number} of {repetitions}: {key(cell)}")
                for contestant, client in field:
                    if cell.sessions <= contestant.most:
                        figures = await client.measure(cell)
                        of_cell = collected.setdefault(contestant.name, {})
                        of_cell.setdefault(key(cell), []).append(figures)
    return {
        name: {cell: median(figures) for cell, figures in of_cell.items()}
        for name, of_cell in collected.items()
    }


def median(repeated: Sequence[Figures]) -> Figures:
    """Each figure's median by itself."""
    values = [asdict(figures) for figures in repeated]
    middle = {name: statistics.median(value[name] for value in values) for name in values[0]}
    return Figures(**{**middle, "steps": int(middle["steps"])})
