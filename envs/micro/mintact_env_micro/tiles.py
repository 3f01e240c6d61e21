"""Screenshots of the web form without a page: strips cut from one browser sheet.

Every part of the form stands at a fixed place and no two overlap, so a screenshot of any state
is a stack of four strips: three fields and the button row. One sheet shows all strips there are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

import numpy as np

from mintact_env_micro.browser import SharedBrowser, open_view
from mintact_env_micro.page import sheet
from mintact_env_micro.scene import CELL, SIZE, Layout, Screenshot
from mintact_env_micro.web import WORDS, WebState

COLUMNS = 16
DEADLINE_S = 90


class PageTiles:
    """Screenshots of form states whose texts are single words of `WORDS`, or empty.

    Args:
        layout: its palette decides which fields occur.
    """

    def __init__(self, layout: Layout) -> None:
        self._strips = _strips(layout.palette)

    def render(self, state: WebState) -> Screenshot:
        """The screenshot that the live page would give, uint8 `[128, 128, 3]`."""
        return np.concatenate([self._strips[key] for key in _keys(state)])


def render_sheet(states: Sequence[WebState]) -> list[Screenshot]:
    """Screenshots of form states, cut from one browser screenshot that shows them side by side.

    Starts a browser of its own, on a thread of its own: it may be called from a running event loop,
    which it blocks for a second or two.
    """
    rows = -(-len(states) // COLUMNS)
    work = _photograph(sheet(states, COLUMNS), COLUMNS * SIZE, rows * SIZE)
    with ThreadPoolExecutor(1) as thread:
        picture = thread.submit(asyncio.run, work).result()
    places = [(i % COLUMNS * SIZE, i // COLUMNS * SIZE) for i in range(len(states))]
    return [picture[y : y + SIZE, x : x + SIZE] for x, y in places]


Key = tuple[object, ...]


@lru_cache(maxsize=8)
def _strips(palette: tuple[str, ...]) -> dict[Key, Screenshot]:
    states = list(_cover(palette))
    strips: dict[Key, Screenshot] = {}
    for state, tile in zip(states, render_sheet(states), strict=True):
        for i, key in enumerate(_keys(state)):
            strips[key] = tile[i * CELL : (i + 1) * CELL]
    return strips


def _cover(palette: tuple[str, ...]) -> Iterator[WebState]:
    """States in which every strip occurs: each row shows every colour, text and focus."""
    blank = WebState((palette[0], palette[1], palette[2]), 0, palette[0], WORDS[0])
    shown = itertools.product(range(len(palette)), ("", *WORDS), (0, 1, 2, None))
    for i, text, focus in shown:
        first, second, third = (palette[(i + k) % len(palette)] for k in range(3))
        fields = (first, second, third)
        chosen = None if focus is None else fields[focus]
        yield replace(blank, fields=fields, typed=(text,) * 3, focus=chosen)
    for place, sent in itertools.product(range(4), (False, True)):
        yield replace(blank, place=place, sent=sent)


def _keys(state: WebState) -> Iterator[Key]:
    for i, (name, text) in enumerate(zip(state.fields, state.typed, strict=True)):
        yield i, name, text, state.focus == name
    yield state.place, state.sent


async def _photograph(html: str, width: int, height: int) -> Screenshot:
    shared = SharedBrowser()
    async with asyncio.timeout(DEADLINE_S):
        browser = await shared.acquire()
        try:
            async with open_view(browser, width, height) as view:
                await view.page.set_content(html)
                return await view.capture()
        finally:
            await shared.release()
