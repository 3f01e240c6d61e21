"""Pages where things have to be dragged: `browser_use_extended` only."""

import re

from acme_miniwob.hand import Hand
from acme_miniwob.solve.registry import ordinal, solves


async def drag(hand: Hand, start: tuple[float, float], end: tuple[float, float]) -> None:
    await hand.act("drag", coordinate=list(start), coordinate2=list(end))


@solves("highlight-text", drags=True)
async def highlight(hand: Hand) -> None:
    await sweep(hand, (await hand.one("#randomText")).box)
    await hand.submit()


@solves("highlight-text-2", drags=True)
async def highlight_one(hand: Hand) -> None:
    await sweep(hand, (await hand.all("#randomText p"))[ordinal(hand.goal)].box)
    await hand.submit()


async def sweep(hand: Hand, box: tuple[float, float, float, float]) -> None:
    """Drag over a paragraph from its first to its last character."""
    x, y, width, height = box
    await drag(hand, (x + 0.5, y + 4), (x + width - 1, y + height - 3))


@solves("drag-circle", "drag-single-shape", drags=True)
async def to_a_side(hand: Hand) -> None:
    x, y = (await hand.one("#area svg > *")).middle
    direction = re.search(r"item (\w+)|circle (\w+)", hand.goal)
    name = direction[1] or direction[2]
    by = {"left": (-30, 0), "right": (30, 0), "up": (0, -30), "down": (0, 30)}[name]
    await drag(hand, (x, y), (x + by[0], y + by[1]))
    await hand.submit()


@solves("drag-box", drags=True)
async def into_the_box(hand: Hand) -> None:
    small, large = await hand.one("#draggableSmall"), await hand.one("#draggableLarge")
    await drag(hand, small.middle, large.middle)
    await hand.submit()


@solves("drag-shapes", drags=True)
async def into_the_frame(hand: Hand) -> None:
    tag = re.search(r"all (\w+)s into", hand.goal)[1]
    await carry(hand, lambda e: e.tag == TAGS[tag], 0)
    await hand.submit()


@solves("drag-shapes-2", drags=True)
async def into_two_frames(hand: Hand) -> None:
    tag = TAGS[re.search(r"all (\w+)s into", hand.goal)[1]]
    await carry(hand, lambda e: e.tag == tag, 0)
    await carry(hand, lambda e: e.tag != tag, 1)
    await hand.submit()


TAGS = {"circle": "circle", "rectangle": "rect", "triangle": "polygon"}


async def carry(hand: Hand, fits, frame: int) -> None:
    shapes = [e for e in await hand.all("#area_svg > *") if e.marks.get("fill") != "none"]
    x, y, width, height = (await hand.all("#shape-container"))[frame].box
    for shape in filter(fits, shapes):
        await drag(hand, shape.middle, (x + width / 2, y + height / 2))
