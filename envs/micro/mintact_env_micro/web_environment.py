"""The web domain live: a real page in a real Chromium, one context an instance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mintact_env_micro.browser import View, open_view, require_browser, shared_browser
from mintact_env_micro.environment import Info, Observation, describe, example_calls, read_call
from mintact_env_micro.faults import SLOW_S, Fault, Faults, Scope, Steps, spoiled
from mintact_env_micro.page import READ_STATE, live_page
from mintact_env_micro.scene import SIZE, Colours, Layout, Screenshot, as_point, unusable
from mintact_env_micro.tasks import setting
from mintact_env_micro.web import WebState
from mintact_platform.environments.settings import Seconds, Share
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.verdict import StateCheck

if TYPE_CHECKING:
    from playwright.async_api import Page

PER_WORKER = 8
DEADLINE_S = 60
KEYS = ("Enter", "Tab", "Escape", "Backspace", "Delete", "ArrowLeft", "ArrowRight")


class Web:
    """The form: `browser_use` with click, type, press and stop.

    An `AsyncEnvironment`; all instances of a worker share one browser.

    Raises:
        ConfigurationError: no Chromium is installed.
    """

    metadata = describe(WebState, PER_WORKER)

    def __init__(
        self,
        *,
        colours: Colours = 6,
        fault: Fault | None = None,
        fault_rate: Share = 1.0,
        fault_after: Steps = 1,
        fault_scope: Scope = "task",
        step_seconds: Seconds = 0.0,
    ) -> None:
        require_browser()
        self._layout = Layout(2, colours)
        self._faults = Faults(fault, fault_rate, fault_after, fault_scope)
        self._step_seconds = step_seconds
        self._start = WebState.start(0, self._layout)
        self._ended = False
        self._episodes = 0
        self._held = AsyncExitStack()
        self._view: View | None = None
        self._shown: Screenshot = np.zeros((SIZE, SIZE, 3), np.uint8)
        self.observation_space = ScreenSpace(SIZE, SIZE)
        self.action_space = CallSpace(example_calls(self._start))

    @staticmethod
    def missing() -> str | None:
        """What this machine lacks to run it, None when nothing; asked before a run is created."""
        try:
            require_browser()
        except ConfigurationError as error:
            return f"{error.what}; {error.next}"
        return None

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Load the page of the task in `options["task"]`, else of the one that the seed gives."""
        seed, layout = setting(seed, options, self._layout)
        self._faults.begin(seed)
        self._start, self._ended = WebState.start(seed, layout), False
        self._episodes += 1
        async with asyncio.timeout(DEADLINE_S):
            view = self._view or await self._open()
            await view.page.set_content(live_page(self._start, str(self._episodes)))
            if await self._read("reset") != self._start:
                raise EnvironmentFailure(
                    "the page does not show the new episode", phase="reset", kind="invalid"
                )
            self._shown = await view.capture()
        return {"screenshot": self._shown, "text": ""}, {"goal": self._start.goal}

    async def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """Carry out one call with pixel coordinates; the reward is 0, see `evaluate`."""
        fault = self._faults.step()
        if fault == "hang":
            await asyncio.Event().wait()
        await asyncio.sleep(self._step_seconds + (SLOW_S if fault == "slow" else 0.0))
        name, arguments = read_call(action)
        view = self._opened("step")
        async with asyncio.timeout(DEADLINE_S):
            useful = name == "browser_use" and await self._act(view.page, arguments)
            if not self._ended:
                self._shown = await view.capture()
        observation = spoiled({"screenshot": self._shown, "text": ""}, fault)
        info = {} if useful else {"note": unusable(name, arguments)}
        return observation, 0.0, self._ended, False, info

    async def evaluate(self) -> StateCheck:
        """Whether the form holds what the task asks for and was sent, read from the page."""
        async with asyncio.timeout(DEADLINE_S):
            return (await self._read("evaluate")).check()

    async def close(self) -> None:
        """Close the context, and the browser after the last one of the worker."""
        self._view = None
        await self._held.aclose()

    async def _open(self) -> View:
        async with AsyncExitStack() as stack:
            shared = shared_browser()
            browser = await shared.acquire()
            stack.push_async_callback(shared.release)
            self._view = await stack.enter_async_context(open_view(browser, SIZE, SIZE))
            self._held = stack.pop_all()
        return self._view

    def _opened(self, phase: str) -> View:
        if self._view is None:
            raise EnvironmentFailure("the page is not open; reset first", phase=phase)
        return self._view

    async def _act(self, page: Page, arguments: Mapping[str, Any]) -> bool:
        """Carry out an action of `browser_use`; whether it was one that this page knows."""
        point = as_point(arguments.get("coordinate"))
        match arguments.get("action"):
            case "stop":
                self._ended = True
            case "click" if point is not None:
                await page.mouse.click(*point)
            case "type" if isinstance(arguments.get("text"), str):
                if point is not None:
                    await page.mouse.click(*point)
                await page.keyboard.insert_text(arguments["text"])
                if arguments.get("enter") is True:
                    await page.keyboard.press("Enter")
            case "press" if arguments.get("key") in KEYS:
                await page.keyboard.press(arguments["key"])
            case "wait":
                pass
            case _:
                return False
        return True

    async def _read(self, phase: str) -> WebState:
        """The episode's start with what the page now holds."""
        seen = await self._opened(phase).page.evaluate(READ_STATE)
        if seen["episode"] != str(self._episodes):
            raise EnvironmentFailure("the page is not this episode's", phase=phase, kind="invalid")
        first, second, third = seen["typed"]
        typed = (first, second, third)
        return replace(self._start, typed=typed, sent=seen["sent"], ended=self._ended)
