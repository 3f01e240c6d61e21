"""Who acts on synthetic sites without a model: the scripted solver's hand, and a random agent.

The hand looks into the DOM only to learn where a target is; everything it does goes through calls
of the action space, on pixels, as an agent's would.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

from playwright.async_api import Page

Act = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Carries out one `browser_use` call whose coordinates are pixels."""

_FIND = files("mintact_env_web.synth").joinpath("runtime/find.js").read_text()
_MARGIN = 8


class TargetMissing(AssertionError):
    """The solver looked for something that is not on the page."""


class PageHand:
    """The scripted solver's hand on a live page; see `site.Hand`.

    Args:
        page: gives the page one is looking at.
        act: carries out a call and waits until the page has settled.
    """

    def __init__(self, page: Callable[[], Page], act: Act) -> None:
        self._page, self._act = page, act

    async def open(self, module: str) -> None:
        """Go to a capability's page by its link in the navigation."""
        await self.click(f"nav:{module}")

    async def click(self, target: str) -> None:
        """Click the middle of an element."""
        await self._do("click", coordinate=await self._reach(target))

    async def type(self, target: str, text: str, *, enter: bool = False) -> None:
        """Click a field and replace its text."""
        await self._do("click", coordinate=await self._reach(target))
        await self._do("press", key="ctrl+a")
        if text:
            await self._do("type", text=text)
        else:
            await self._do("press", key="Backspace")
        if enter:
            await self._do("press", key="Enter")

    async def choose(self, target: str, value: str) -> None:
        """Open the drop-down `target` and click its option `target:value`."""
        await self.click(target)
        await self.click(f"{target}:{value}")

    async def press(self, key: str) -> None:
        """Press a key."""
        await self._do("press", key=key)

    async def hover(self, target: str) -> None:
        """Move the pointer over an element."""
        await self._do("hover", coordinate=await self._reach(target))

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another (`browser_use_extended` only)."""
        start = await self._reach(source)
        await self._do(
            "drag", coordinate=start, coordinate2=await self._reach(target, scroll=False)
        )

    async def back(self) -> None:
        """Go one page back."""
        await self._do("go_back")

    async def read(self, target: str) -> str:
        """The visible text of an element, for answers."""
        return str((await self._find(target))["text"]).strip()

    async def see(self, target: str) -> bool:
        """Whether an element is on the page."""
        return await self._page().evaluate(_FIND, target) is not None

    async def _do(self, action: str, **arguments: Any) -> None:
        await self._act({"name": "browser_use", "arguments": {"action": action, **arguments}})

    async def _find(self, target: str) -> dict[str, Any]:
        found: dict[str, Any] | None = await self._page().evaluate(_FIND, target)
        if found is None:
            raise TargetMissing(f"no element {target!r} on {self._page().url}")
        return found

    async def _reach(self, target: str, *, scroll: bool = True) -> list[int]:
        """The middle of an element, scrolled into view by scroll calls."""
        for _ in range(40):
            found = await self._find(target)
            window = {"x": 0, "y": 0, "width": found["wide"], "height": found["high"]}
            for frame in filter(None, (found["holder"], window)):
                away = _away(found, frame)
                if away and scroll:
                    if frame is not window:
                        middle = [
                            int(frame["x"] + frame["width"] / 2),
                            int(frame["y"] + frame["height"] / 2),
                        ]
                        await self._do("hover", coordinate=middle)
                    direction = "down" if away > 0 else "up"
                    await self._do("scroll", direction=direction, amount=int(abs(away)) + 1)
                    break
            else:
                return [
                    int(found["x"] + found["width"] / 2),
                    int(found["y"] + found["height"] / 2),
                ]
        raise TargetMissing(f"{target!r} cannot be scrolled into view on {self._page().url}")


def _away(box: Mapping[str, float], frame: Mapping[str, float]) -> float:
    """Pixels by which the middle of a box lies outside a frame: below positive, above negative."""
    middle = box["y"] + box["height"] / 2
    top, bottom = frame["y"] + _MARGIN, frame["y"] + frame["height"] - _MARGIN
    if middle > bottom:
        return middle - bottom + frame["height"] / 3
    if middle < top:
        return middle - top - frame["height"] / 3
    return 0.0


def random_call(rng: random.Random, width: int, height: int) -> dict[str, Any]:
    """A call of an agent that sees nothing: mostly clicks anywhere, some typing and scrolling."""
    point = [rng.randrange(width), rng.randrange(height)]
    arguments: dict[str, Any] = rng.choice(
        [
            *[{"action": "click", "coordinate": point}] * 6,
            {"action": "type", "text": rng.choice(["hello", "12", "2024-05-03", "yes"])},
            {"action": "scroll", "direction": rng.choice(["up", "down"])},
            {"action": "press", "key": rng.choice(["Enter", "Tab", "Escape"])},
            {"action": "go_back"},
        ]
    )
    return {"name": "browser_use", "arguments": arguments}
