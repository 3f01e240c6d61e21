"""Environments of websites: a source supplies the site, this drives the browser.

`WebEnvironment` is what `web/synth`, `web/cache` and `web/live` share: an episode is an isolated
context, an observation is a screenshot, and every way to fail is an environment failure.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from mintact_env_web.browser.frames import FrameFormat
from mintact_env_web.browser.guard import Policy
from mintact_env_web.browser.hands import Hands
from mintact_env_web.browser.host import MAX_CONTEXTS, BrowserHost, ContextSpec, browser_host
from mintact_env_web.browser.launch import Network, require_chromium, requirements
from mintact_env_web.browser.tab import Screen
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, MintactError
from mintact_platform.processes import finish
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

Observation = dict[str, Any]
Info = dict[str, Any]

DEADLINES_S = {"reset": 40.0, "step": 20.0, "evaluate": 20.0}
"""Inside the platform's own, so that a hanging page fails its episode and not the whole worker."""
CLOSE_DEADLINE_S = 6.0
_EXAMPLES = (
    {"name": "browser_use", "arguments": {"action": "click", "coordinate": [640, 360]}},
    {"name": "browser_use", "arguments": {"action": "scroll", "direction": "down"}},
    {"name": "browser_use", "arguments": {"action": "wait"}},
    {"name": "browser_use", "arguments": {"action": "stop", "response": ""}},
)


class Source(Protocol):
    """Where an environment's pages come from; one object an environment, one episode at a time.

    Attributes:
        failures: what broke in the running episode for which the agent is not to blame, e.g. a
            document that the recording lacks: an environment failure at the next step. Emptied
            by `open`.
    """

    @property
    def failures(self) -> Sequence[str]:
        """See the class."""
        ...

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """Begin an episode in a new context: install routes and scripts, return the start URL.

        What earlier episodes held is to be forgotten; their contexts are closed already.
        """
        ...

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """Read the final state.

        Args:
            page: the current tab; others are in `page.context.pages`.
            task: the episode's.
            answer: response of `stop`, None when the agent did not stop.
        """
        ...

    async def close(self) -> None:
        """The environment ends: give back what the source holds. Called once."""
        ...


class WebEnvironment:
    """An `AsyncEnvironment` on a real browser; all instances of a worker share that browser.

    A subclass hands over its source and has keyword parameters of its own. `step` takes calls of
    `browser_use` and `browser_use_extended` in pixels. What cannot be carried out (an unknown
    key, nothing to go back to) is said in the observation's text; failures are the site's.

    Args:
        source: of the pages.
        width: of the screenshot, pixels.
        height: pixels.
        with_url: begin the observation's text with `URL: …`.
        image_format: encoding of screenshots.
        network: see `browser.launch.Network`.
        policy: which hosts an open network reaches.
        settle_s: how long a page may take to come to rest before it is photographed anyway.

    Raises:
        ConfigurationError: no Chromium is installed.
    """

    metadata: ClassVar[Mapping[str, Any]] = {
        "render_modes": [],
        "mintact": {
            "domain": "web",
            "action_space": "browser_use",
            "instances_per_worker": MAX_CONTEXTS,
            "requires": requirements(),
            "capacity_hint": {"cpus": 0.25, "memory_mb": 64},
        },
    }

    def __init__(
        self,
        source: Source,
        *,
        width: int = 1280,
        height: int = 720,
        with_url: bool = False,
        image_format: FrameFormat = "jpeg",
        network: Network = "proxy-lock",
        policy: Policy | None = None,
        settle_s: float = 2.0,
    ) -> None:
        require_chromium()
        self.source = source
        self.observation_space = ScreenSpace(width, height)
        self.action_space = CallSpace(_EXAMPLES)
        self._spec = ContextSpec(width, height, network, policy or Policy())
        self._with_url = with_url
        self._format = image_format
        self._settle_s = settle_s
        self._directory: Path | None = None
        self._host: BrowserHost | None = None
        self._episode = AsyncExitStack()
        self._task: Task | None = None
        self._screen: Screen | None = None
        self._answer: str | None = None

    @staticmethod
    def missing() -> str | None:
        """What this machine lacks to run it, None when nothing; asked before a run is created."""
        try:
            require_chromium()
        except ConfigurationError as error:
            return f"{error.what}; {error.next}"
        return None

    @property
    def page(self) -> Page:
        """The current tab, for scripted solvers.

        Raises:
            EnvironmentFailure: no episode is open.
        """
        return self._opened("step").page

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Open the site of the task in `options["task"]` in a new context."""
        task = Task.from_json((options or {})["task"])
        chosen = task.seed if task.seed is not None else seed or 0
        async with self._attributed("reset"):
            await self._end_episode()
            screen = await self._open(task)
            url = await screen.unless_failed(self.source.open(screen.context, task, chosen))
            await screen.unless_failed(screen.goto(url))
            return await self._observe(screen, "reset"), {"goal": task.goal}

    async def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """Carry out one call with pixel coordinates; the reward is 0, see `evaluate`."""
        async with self._attributed("step"):
            screen = self._opened("step")
            arguments = dict(action.get("arguments") or {})
            if arguments.get("action") == "stop":
                self._answer = str(arguments.get("response") or "")
                return self._last(screen), 0.0, True, False, {}
            screen.begin_step()
            complaint = await Hands(screen).do(arguments)
            if complaint:
                screen.note(complaint)
            observation = await self._observe(screen, "step")
            return observation, 0.0, False, False, {"url": screen.page.url}

    async def evaluate(self) -> StateCheck | None:
        """The source's reading of the final state."""
        async with self._attributed("evaluate"):
            screen = self._opened("evaluate")
            assert self._task is not None
            return await screen.unless_failed(
                self.source.check(screen.page, self._task, self._answer)
            )

    async def close(self) -> None:
        """Close the context, and the browser after the last environment of the worker."""
        await finish(self._close())

    # ---- an episode ---------------------------------------------------------------------------

    async def _open(self, task: Task) -> Screen:
        """A new context and its first tab."""
        if self._host is None:
            self._host = browser_host(self._spec.network)
            await self._host.acquire()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="mintact-web-"))
        async with AsyncExitStack() as stack:
            context = await stack.enter_async_context(self._host.context(self._spec))
            files = Path(tempfile.mkdtemp(prefix="episode-", dir=self._directory))
            stack.callback(shutil.rmtree, files, ignore_errors=True)
            size = (self._spec.width, self._spec.height)
            screen = await Screen.open(context, files=files, size=size)
            stack.push_async_callback(screen.close)
            self._episode = stack.pop_all()
        self._screen, self._task, self._answer = screen, task, None
        return screen

    async def _observe(self, screen: Screen, phase: Literal["reset", "step"]) -> Observation:
        frame = await screen.capture(self._format, self._settle_s)
        if self.source.failures:
            raise EnvironmentFailure(self.source.failures[0], phase=phase, kind="invalid")
        lines = [f"URL: {screen.page.url}"] if self._with_url else []
        return {"screenshot": frame, "text": "\n".join([*lines, *screen.take_notes()])}

    def _last(self, screen: Screen) -> Observation:
        text = f"URL: {screen.page.url}" if self._with_url else ""
        return {"screenshot": screen.last_frame, "text": text}

    def _opened(self, phase: str) -> Screen:
        if self._screen is None:
            raise EnvironmentFailure("no episode is open; reset first", phase=phase)
        return self._screen

    async def _end_episode(self) -> None:
        self._screen = None
        episode, self._episode = self._episode, AsyncExitStack()
        await finish(episode.aclose())

    async def _close(self) -> None:
        try:
            await self._end_episode()
        finally:
            host, self._host = self._host, None
            directory, self._directory = self._directory, None
            if directory is not None:
                await asyncio.to_thread(shutil.rmtree, directory, True)
            try:
                async with asyncio.timeout(CLOSE_DEADLINE_S):
                    await self.source.close()
            finally:
                if host is not None:
                    await host.release()

    @asynccontextmanager
    async def _attributed(self, phase: str) -> AsyncIterator[None]:
        """A deadline; every error becomes a typed failure, which ends the episode."""
        try:
            async with asyncio.timeout(DEADLINES_S[phase]):
                yield
        except ConfigurationError:
            await self._end_episode()
            raise
        except asyncio.CancelledError:
            await self._end_episode()
            raise
        except Exception as error:
            failure = _failure(error, phase, self._screen)
            await self._end_episode()
            raise failure from error


def _failure(error: Exception, phase: str, screen: Screen | None) -> MintactError:
    """What happened, in the platform's words: a death that was seen explains every later error."""
    if screen is not None and screen.failure is not None:
        return EnvironmentFailure(screen.failure, phase=phase, kind="crash")
    if isinstance(error, EnvironmentFailure):
        error.phase = phase
        return error
    if isinstance(error, TimeoutError):
        return EnvironmentFailure("the page does not answer", phase=phase, kind="timeout")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    kind = "timeout" if type(error).__name__ == "TimeoutError" else "crash"
    return EnvironmentFailure(lines[0], phase=phase, kind=kind)
