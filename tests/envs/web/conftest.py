"""One browser a session, and sites that are a few lines of HTML."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from mintact_env_web import environment
from mintact_env_web.browser import dialogs, driver, frames, hands, host, running, tab
from mintact_env_web.browser.host import browser_host
from mintact_env_web.browser.launch import find_chromium
from mintact_env_web.browser.scripts import page_script
from mintact_env_web.environment import WebEnvironment

from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

FAR_S = 60
LIMITS = {
    dialogs: ("DEADLINE_S",),
    driver: ("START_DEADLINE_S", "STOP_DEADLINE_S"),
    frames: ("LOAD_LIMIT_S", "CALL_DEADLINE_S"),
    hands: ("ACT_DEADLINE_S", "HISTORY_DEADLINE_S", "CHOOSER_DEADLINE_S"),
    host: ("OPEN_DEADLINE_S", "CLOSE_DEADLINE_S"),
    running: ("LAUNCH_DEADLINE_S", "STOP_DEADLINE_S"),
    tab: ("GOTO_DEADLINE_S", "OPEN_DEADLINE_S", "TAB_DEADLINE_S"),
}
"""Of the browser's side, by module."""
PAGE_LIMITS = ("LEAVING_MS = 4000", "COMING_MS = 1000", "ANSWER_MS = 2000")
"""Of the page's side, as `pulse.js` has them."""


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(items):
    if find_chromium() is None:
        skip = pytest.mark.skip(reason="no Chromium: apt-get install chromium-headless-shell")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(skip)


@dataclass
class Pages:
    """A source of pages that are written down: path to HTML or to arguments of `fulfill`."""

    pages: dict
    failures: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    start: str = "http://site.test/"

    async def open(self, context, task, seed):
        self.failures.clear()
        self.asked.clear()

        async def answer(route):
            path = "/" + route.request.url.partition("//")[2].partition("/")[2].partition("?")[0]
            self.asked.append(route.request.url)
            page = self.pages.get(path)
            if isinstance(page, str):
                page = {"body": page, "content_type": "text/html; charset=utf-8"}
            await route.fulfill(**(page or {"status": 404, "body": "not found"}))

        await context.route("**/*", answer)
        return self.start

    async def check(self, page, task, answer):
        title = await page.title()
        return StateCheck(
            title == "done", float(title == "done"), {"title": title, "answer": answer}
        )

    async def close(self):
        pass


@dataclass
class Visit:
    """An environment with an open episode."""

    environment: WebEnvironment
    source: Pages
    observation: dict = field(default_factory=dict)

    @property
    def page(self):
        return self.environment.page

    @property
    def screen(self):
        return self.environment._screen

    @property
    def text(self):
        return self.observation["text"]

    @property
    def shot(self):
        return self.observation["screenshot"]

    async def reset(self):
        task = Task("t", "do it", "web").to_json()
        self.observation, _ = await self.environment.reset(seed=0, options={"task": task})
        return self

    async def act(self, action, **arguments):
        """Carry out an action; the observation's text."""
        call = {"name": "browser_use", "arguments": {"action": action, **arguments}}
        self.observation, _, self.ended, _, self.info = await self.environment.step(call)
        return self.text

    async def at(self, selector):
        """The middle of an element in pixels, through shadow roots and frames."""
        frame, _, rest = selector.partition(" >>> ")
        place = self.page.frame_locator(frame).locator(rest) if rest else self.page.locator(frame)
        box = await place.bounding_box()
        return [round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2)]

    async def click(self, selector):
        return await self.act("click", coordinate=await self.at(selector))


@pytest.fixture(scope="session")
def patience():
    """`with patience():` limits that protect a run from a bad page lie far away.

    Whoever wants one to be reached sets it near.
    """

    @contextlib.contextmanager
    def far():
        scripts = page_script()
        for limit in PAGE_LIMITS:
            assert f"const {limit};" in scripts
            scripts = scripts.replace(limit, f"{limit.partition(' ')[0]} = {FAR_S * 1000}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "page_script", lambda: scripts)
            for phase in environment.DEADLINES_S:
                patch.setitem(environment.DEADLINES_S, phase, 4 * FAR_S)
            for module, names in LIMITS.items():
                for name in names:
                    patch.setattr(module, name, FAR_S)
            yield

    return far


@pytest.fixture(autouse=True)
def patient(patience):
    """No test fails because the machine is busy."""
    with patience():
        yield


@pytest.fixture
def settle_s():
    """How long a page of `visit` may take to come to rest."""
    return FAR_S


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    """Keeps one browser for all tests that run on the session's loop."""
    host = browser_host()
    await host.acquire()
    yield host
    await host.release()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser, patient, settle_s):
    """Open a site: the start page's HTML, other pages by path."""
    visits = []

    async def opened(html, pages=None, *, reset=True, **options):
        source = Pages({"/": html, **(pages or {})})
        one = Visit(WebEnvironment(source, **{"settle_s": settle_s, **options}), source)
        visits.append(one)
        return await one.reset() if reset else one

    yield opened
    for one in visits:
        await one.environment.close()


@pytest.fixture
def mark(monkeypatch):
    """Marks every process that this test starts."""
    value = uuid4().hex
    monkeypatch.setenv("WEB_TEST", value)
    return value


@pytest.fixture
def started(mark):
    """The marked processes that still run: id and command line."""

    def look():
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"WEB_TEST={mark}".encode() in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_text(errors="replace")
            except OSError:
                continue
        return {pid: line for pid, line in found.items() if line and pid != os.getpid()}

    return look


@pytest.fixture
def gone(started):
    """Wait until nothing marked runs."""

    async def wait():
        async with asyncio.timeout(60):
            while started():
                await asyncio.sleep(0.02)

    return wait
