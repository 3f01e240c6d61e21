"""The hands on a screen: every action of `browser_use`, carried out in pixels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mintact_env_web.browser import fields
from mintact_env_web.browser.keys import has_key, read_combination
from mintact_env_web.browser.tab import Screen
from mintact_platform.errors import near_match

SCREEN_SHARE = 0.8
"""Of the page's height or width that a scroll without an amount moves by."""
MAX_SCROLL = 20_000
WAIT_S = 1.0
DRAG_STEPS = 12
ACT_DEADLINE_S = 10
HISTORY_DEADLINE_S = 5
CHOOSER_DEADLINE_S = 1.0
_TWO_FRAMES = """new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done)); setTimeout(done, 200); })"""
_RELOADS = (["F5"], ["Control", "r"], ["Control", "F5"], ["Control", "Shift", "r"])
_PASTES = (["Control", "v"], ["Shift", "Insert"], ["Control", "Shift", "v"], ["Meta", "v"])


class Unusable(ValueError):
    """The action cannot be carried out; the text is for the agent."""


class Hands:
    """Carries out calls on a screen.

    Args:
        screen: whose current tab is operated.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._actions: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[str | None]]] = {
            "click": self._click,
            "hover": self._hover,
            "type": self._type,
            "press": self._press,
            "scroll": self._scroll,
            "go_back": self._go_back,
            "go_forward": self._go_forward,
            "wait": self._wait,
            "drag": self._drag,
            "new_tab": self._new_tab,
            "switch_tab": self._switch_tab,
            "close_tab": self._close_tab,
            "upload": self._upload,
            "select_option": self._select_option,
        }

    async def do(self, arguments: Mapping[str, Any]) -> str | None:
        """Carry out one call.

        Args:
            arguments: `{"action": …, …}` with coordinates in pixels.

        Returns:
            What the agent has to know: why it could not be done, or what became of it.

        Raises:
            EnvironmentFailure: the page or the browser died.
            TimeoutError: the page does not answer.
        """
        name = arguments.get("action")
        act = self._actions.get(name) if isinstance(name, str) else None
        if act is None:
            return f"Unknown action {name!r}; {near_match(str(name), self._actions)}."
        try:
            async with asyncio.timeout(ACT_DEADLINE_S):
                return await self._screen.unless_failed(_coroutine(act, arguments))
        except Unusable as error:
            return f"{name}: {error}."

    # ---- pointer -------------------------------------------------------------------------------

    async def _click(self, arguments: Mapping[str, Any]) -> str | None:
        await self._screen.page.mouse.click(*self._point(arguments))
        return None

    async def _hover(self, arguments: Mapping[str, Any]) -> str | None:
        await self._screen.page.mouse.move(*self._point(arguments))
        return None

    async def _drag(self, arguments: Mapping[str, Any]) -> str | None:
        start, end = self._point(arguments), self._point(arguments, "coordinate2")
        mouse = self._screen.page.mouse
        await mouse.move(*start)
        await mouse.down()
        try:
            # a first small move, by which pages tell a drag from a click
            await mouse.move(start[0] + (4 if end[0] >= start[0] else -4), start[1])
            await mouse.move(*end, steps=DRAG_STEPS)
        finally:
            await mouse.up()
        return None

    async def _scroll(self, arguments: Mapping[str, Any]) -> str | None:
        direction = arguments.get("direction")
        width, height = self._screen.size
        amount = arguments.get("amount")
        if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int)):
            raise Unusable(f"amount must be a number of pixels, got {amount!r}")
        across = direction in ("left", "right")
        if not across and direction not in ("up", "down"):
            raise Unusable(f"direction must be up, down, left or right, got {direction!r}")
        default = round(SCREEN_SHARE * (width if across else height))
        pixels = max(-MAX_SCROLL, min(MAX_SCROLL, default if amount is None else amount))
        signed = -pixels if direction in ("up", "left") else pixels
        page = self._screen.page
        await page.mouse.wheel(signed if across else 0, 0 if across else signed)
        # the wheel moves the page with the next frame
        await page.evaluate(_TWO_FRAMES)
        return None

    # ---- keyboard ------------------------------------------------------------------------------

    async def _type(self, arguments: Mapping[str, Any]) -> str | None:
        text = arguments.get("text")
        if not isinstance(text, str):
            raise Unusable(f"text must be a string, got {text!r}")
        if arguments.get("coordinate") is not None:
            await self._click(arguments)
        page = self._screen.page
        complaint = await fields.write(page, text)
        if arguments.get("enter") is True:
            await self._screen.page.keyboard.press("Enter")
        return complaint

    async def _press(self, arguments: Mapping[str, Any]) -> str | None:
        try:
            keys = read_combination(str(arguments.get("key", "")))
        except ValueError as error:
            raise Unusable(str(error)) from None
        page = self._screen.page
        if keys in _PASTES:
            return await fields.paste(page, self._screen.clipboard)
        if keys in _RELOADS:
            await page.reload(wait_until="commit", timeout=HISTORY_DEADLINE_S * 1000)
            return None
        if keys == ["Alt", "ArrowLeft"]:
            return await self._go_back({})
        if keys == ["Alt", "ArrowRight"]:
            return await self._go_forward({})
        if len(keys) == 1 and len(keys[0]) == 1 and not has_key(keys[0]):
            await page.keyboard.insert_text(keys[0])
        elif not has_key(keys[-1]) and len(keys[-1]) == 1:
            raise Unusable(f"no key has the character {keys[-1]!r}")
        else:
            await page.keyboard.press("+".join(keys))
        return None

    # ---- history and tabs ----------------------------------------------------------------------

    async def _go_back(self, arguments: Mapping[str, Any]) -> str | None:
        """The previous page; in a tab without one, that a page opened, back to the opener."""
        if await self._move_in_history(-1):
            return None
        if len(self._screen.tabs) > 1:
            await self._screen.close_tab()
            return "There was no previous page in this tab; the tab was closed."
        raise Unusable("there is no previous page")

    async def _go_forward(self, arguments: Mapping[str, Any]) -> str | None:
        if not await self._move_in_history(1):
            raise Unusable("there is no next page")
        return None

    async def _move_in_history(self, by: int) -> bool:
        """Whether there was a page to go to; blank beginnings do not count."""
        session = await self._screen.session()
        history = await session.send("Page.getNavigationHistory")
        index = history["currentIndex"] + by
        if not 0 <= index < len(history["entries"]):
            return False
        entry = history["entries"][index]
        if entry["url"] == "about:blank" and index == 0:
            return False
        move = self._screen.page.go_back if by < 0 else self._screen.page.go_forward
        await move(wait_until="commit", timeout=HISTORY_DEADLINE_S * 1000)
        return True

    async def _wait(self, arguments: Mapping[str, Any]) -> str | None:
        await asyncio.sleep(WAIT_S)
        return None

    async def _new_tab(self, arguments: Mapping[str, Any]) -> str | None:
        if not self._screen.may_open():
            raise Unusable(f"{len(self._screen.tabs)} tabs are open")
        await self._screen.new_tab()
        return self._tabs()

    async def _switch_tab(self, arguments: Mapping[str, Any]) -> str | None:
        number, tabs = arguments.get("tab"), self._screen.tabs
        if not isinstance(number, int) or not 1 <= number <= len(tabs):
            raise Unusable(f"there is no tab {number!r}; tabs are numbered 1 to {len(tabs)}")
        self._screen.show(tabs[number - 1])
        return self._tabs()

    async def _close_tab(self, arguments: Mapping[str, Any]) -> str | None:
        if len(self._screen.tabs) == 1:
            raise Unusable("the last tab stays open")
        await self._screen.close_tab()
        return self._tabs()

    def _tabs(self) -> str:
        tabs = self._screen.tabs
        return f"Tab {tabs.index(self._screen.page) + 1} of {len(tabs)}."

    # ---- forms ---------------------------------------------------------------------------------

    async def _upload(self, arguments: Mapping[str, Any]) -> str | None:
        files = self._screen.files()
        name = arguments.get("file")
        if name not in files:
            raise Unusable(f"there is no file {name!r}; {near_match(str(name), files)}")
        if arguments.get("coordinate") is not None:
            self._screen.chooser = None
            self._screen.quiet_chooser = True
            try:
                await self._click(arguments)
                await self._screen.choosing(CHOOSER_DEADLINE_S)
            finally:
                self._screen.quiet_chooser = False
        chooser, self._screen.chooser = self._screen.chooser, None
        if chooser is None:
            raise Unusable("the page does not ask for a file; click the file field")
        await chooser.set_files(files[str(name)])
        return f"Uploaded {name!r}."

    async def _select_option(self, arguments: Mapping[str, Any]) -> str | None:
        option = arguments.get("option")
        if not isinstance(option, str):
            raise Unusable(f"option must be a string, got {option!r}")
        problem = await fields.select(self._screen.page, self._point(arguments), option)
        if problem is not None:
            raise Unusable(problem)
        return None

    def _point(self, arguments: Mapping[str, Any], name: str = "coordinate") -> tuple[float, float]:
        value = arguments.get(name)
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise Unusable(f"{name} must be [x, y], got {value!r}")
        x, y = value
        if any(isinstance(n, bool) or not isinstance(n, int | float) for n in (x, y)):
            raise Unusable(f"{name} must be two numbers, got {value!r}")
        width, height = self._screen.size
        if not (0 <= x < width and 0 <= y < height):
            raise Unusable(f"{name} {list(value)} is not on the screen of {width}×{height}")
        return float(x), float(y)


async def _coroutine(
    act: Callable[[Mapping[str, Any]], Awaitable[str | None]], arguments: Mapping[str, Any]
) -> str | None:
    return await act(arguments)
