"""Which function solves which page."""

import re
from collections.abc import Awaitable, Callable

from acme_miniwob.hand import Hand

Solve = Callable[[Hand], Awaitable[None]]
SOLVERS: dict[str, Solve] = {}
DRAGS: set[str] = set()
"""Pages that need `drag`, an action of `browser_use_extended` alone."""


def solves(*pages: str, drags: bool = False) -> Callable[[Solve], Solve]:
    def keep(solve: Solve) -> Solve:
        SOLVERS.update(dict.fromkeys(pages, solve))
        if drags:
            DRAGS.update(pages)
        return solve

    return keep


def quoted(goal: str) -> list[str]:
    return re.findall(r'"([^"]*)"', goal)


def ordinal(goal: str) -> int:
    """The first of `1st`, `2nd` … in the goal, counted from 0."""
    return int(re.search(r"(\d+)(?:st|nd|rd|th)", goal)[1]) - 1


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]
