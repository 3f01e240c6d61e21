"""A scripted player: it looks into the page to learn where things are, and acts through calls."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

LOOK = files("acme_miniwob").joinpath("look.js").read_text()
BOTTOM = 210
"""Of the task's area; nothing below it belongs to the task."""


@dataclass(frozen=True)
class Element:
    """What is to be seen at a place; boxes are x, y, width and height in pixels."""

    box: tuple[float, float, float, float]
    holder: tuple[float, float, float, float] | None
    tag: str
    marks: Mapping[str, str]
    text: str
    value: str
    checked: bool
    colour: str
    above: float
    below: float

    @property
    def middle(self) -> tuple[float, float]:
        x, y, width, height = self.box
        return x + width / 2, y + height / 2

    @property
    def classes(self) -> list[str]:
        return self.marks.get("class", "").split()


class Hand:
    """Plays the running episode of an environment.

    Args:
        environment: in an episode.
        goal: what the page asks.
    """

    def __init__(self, environment: Any, goal: str) -> None:
        self.environment, self.goal = environment, goal
        self.ended, self.calls = False, 0

    async def all(self, selector: str, text: str | None = None) -> list[Element]:
        """Visible elements in the page's order, those with exactly this text if one is given."""
        found = await self.environment.page.evaluate(LOOK, selector)
        every = [Element(**one) for one in found]
        return every if text is None else [one for one in every if one.text == text]

    async def one(self, selector: str, text: str | None = None) -> Element:
        found = await self.all(selector, text)
        assert found, f"no {selector!r} with {text!r}"
        return found[0]

    async def click(self, what: "str | Element", text: str | None = None) -> None:
        """Click the middle of an element, scrolled into view first."""
        if isinstance(what, str):
            what = await self.reach(lambda: self.one(what, text))
        await self.at(*what.middle)

    async def at(self, x: float, y: float) -> None:
        await self.act("click", coordinate=[x, y])

    async def hover(self, what: Element) -> None:
        await self.act("hover", coordinate=list(what.middle))

    async def type(self, what: "str | Element", text: str) -> None:
        """Replace the text of a field."""
        await self.click(what)
        await self.press("ctrl+a")
        await self.act("type", text=text)

    async def write(self, text: str) -> None:
        await self.act("type", text=text)

    async def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            await self.act("press", key=key)

    async def scroll(self, what: Element, pixels: float) -> None:
        await self.hover(what)
        direction = "down" if pixels > 0 else "up"
        await self.act("scroll", direction=direction, amount=max(1, round(abs(pixels))))

    async def submit(self) -> None:
        await self.click("button, .final, input[type=submit]", "Submit")

    async def reach(self, find: Callable[[], Awaitable[Element]]) -> Element:
        """An element, after its box was scrolled to where the element shows."""
        for _ in range(30):
            found = await find()
            if found.holder is None:
                return found
            _, top, _, height = found.holder
            bottom = min(top + height, BOTTOM)
            away = found.middle[1] - (top + bottom) / 2
            if top + 2 < found.middle[1] < bottom - 2:
                return found
            x, _, width, _ = found.holder
            await self.act("hover", coordinate=[x + width / 2, (top + bottom) / 2])
            direction = "down" if away > 0 else "up"
            await self.act("scroll", direction=direction, amount=max(1, round(abs(away))))
        raise AssertionError(f"{found} stays out of view")

    async def act(self, action: str, **arguments: Any) -> None:
        """One call; an episode that has ended takes no more."""
        if self.ended:
            return
        self.calls += 1
        call = {"name": "browser_use", "arguments": {"action": action, **arguments}}
        _, _, self.ended, *_ = await self.environment.step(call)
