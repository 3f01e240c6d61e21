"""Pages that are drawings: shapes, figures, points on a plane."""

import re

from acme_miniwob.hand import Element, Hand
from acme_miniwob.solve.registry import numbers, solves


@solves("ascending-numbers")
async def ascending(hand: Hand) -> None:
    for shape in sorted(await hand.all("#area_svg text"), key=lambda e: int(e.text)):
        await hand.click(shape)


@solves("click-shape")
async def shape(hand: Hand) -> None:
    wanted = re.search(r"Click on an? (.*)", hand.goal)[1]
    fits = [e for e in await hand.all("#area_svg > *") if matches(e, wanted)]
    await hand.click(fits[0])


@solves("count-shape")
async def count(hand: Hand) -> None:
    wanted = re.search(r"How many (.*)s are there", hand.goal)[1]
    fits = [e for e in await hand.all("#area_svg > *") if matches(e, wanted)]
    await hand.click("#count-buttons button", str(len(fits)))


def matches(shape: Element, wanted: str) -> bool:
    """Whether a shape is what `large red triangle`, `digit` or `blue item` describes."""
    *adjectives, noun = wanted.split(" ")
    if noun not in ("item", *kinds(shape)):
        return False
    size = "large" if max(shape.box[2:]) > 14 or shape.marks.get("font-size") == "20px" else "small"
    return all(word in (size, shape.marks.get("fill")) for word in adjectives if word)


def kinds(shape: Element) -> tuple[str, str]:
    if shape.tag == "text":
        return shape.text, "digit" if shape.text.isdigit() else "letter"
    names = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}
    return names[shape.tag], "shape"


@solves("identify-shape")
async def identify(hand: Hand) -> None:
    drawn = await hand.one("#area_svg > *")
    name, kind = kinds(drawn)
    await hand.click(f"#area-buttons [data-type={kind if drawn.tag == 'text' else name}]")


@solves("grid-coordinate")
async def coordinate(hand: Hand) -> None:
    x, y = numbers(hand.goal)
    await hand.click(f"[id='({x},{y})']")


@solves("circle-center")
async def centre(hand: Hand) -> None:
    await hand.click("#area circle")
    await hand.submit()


@solves("find-midpoint")
async def midpoint(hand: Hand) -> None:
    (a, b), (c, d) = [e.middle for e in await hand.all("#area circle")]
    await hand.at((a + c) / 2, (b + d) / 2)
    await hand.submit()


@solves("bisect-angle")
async def bisect(hand: Hand) -> None:
    corner = (await hand.one("#area circle.init-blue")).middle
    ends = [e.middle for e in await hand.all("#area circle.init-black")]
    directions = []
    for x, y in ends:
        length = ((x - corner[0]) ** 2 + (y - corner[1]) ** 2) ** 0.5
        directions.append(((x - corner[0]) / length, (y - corner[1]) / length))
    (a, b), (c, d) = directions
    length = ((a + c) ** 2 + (b + d) ** 2) ** 0.5
    await hand.at(corner[0] + 60 * (a + c) / length, corner[1] + 60 * (b + d) / length)
    await hand.submit()


@solves("right-angle")
async def right_angle(hand: Hand) -> None:
    (a, b), (x, y) = [(await hand.one(f"#init-{c}")).middle for c in ("black", "blue")]
    left, top, width, height = (await hand.one("#svg-grid")).box
    for sign in (1, -1):
        for share in (0.8, 0.6, 0.4, 0.3):
            u, v = x - sign * share * (b - y), y + sign * share * (a - x)
            if left + 4 < u < left + width - 4 and top + 4 < v < top + height - 4:
                await hand.at(u, v)
                return await hand.submit()
    raise AssertionError("no room for a right angle")


@solves("hot-cold")
async def hot(hand: Hand) -> None:
    left, top, width, height = (await hand.one("#touch-area")).box
    for y in range(int(top) + 5, int(top + height), 6):
        for x in range(int(left) + 5, int(left + width), 6):
            await hand.act("hover", coordinate=[x, y])
            if any(e.text == "HOT" for e in await hand.all("#signal")):
                return await hand.at(x, y)
    raise AssertionError("it is nowhere hot")
