import asyncio
import contextlib
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from mintact_env_micro.browser import SharedBrowser, browser_path, open_view, shared_browser
from mintact_env_micro.web_environment import Web

from mintact_platform.errors import ConfigurationError

pytestmark = pytest.mark.browser
CLICK = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [16, 16]}}


@pytest.fixture(autouse=True)
def mark(monkeypatch):
    """Marks every process that this test starts."""
    value = uuid4().hex
    monkeypatch.setenv("MICRO_TEST", value)
    return value


def started(mark):
    """The marked processes that still run: id and command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"MICRO_TEST={mark}".encode() in (path / "environ").read_bytes():
                found[int(path.name)] = (path / "cmdline").read_text(errors="replace")
        except OSError:
            continue
    return {pid: line for pid, line in found.items() if line and pid != os.getpid()}


def browsers(mark):
    return [pid for pid, line in started(mark).items() if "--remote-debugging-pipe" in line]


async def gone(mark):
    """Wait until nothing marked runs."""
    async with asyncio.timeout(60):
        while started(mark):
            await asyncio.sleep(0.02)


async def test_all_environments_of_a_loop_share_one_browser_and_the_last_one_ends_it(
    mark, first_ones
):
    first, second = Web(), Web()
    await asyncio.gather(first.reset(seed=1), second.reset(seed=2))
    shared = first_ones(browsers(mark))
    await first.close()
    assert first_ones(browsers(mark)) == shared != []
    await second.evaluate()
    await second.close()
    await second.close()
    await gone(mark)


async def test_a_killed_browser_fails_its_episode_and_the_next_environment_starts_another(mark):
    first, second = Web(), Web()
    await first.reset(seed=1)
    for pid in browsers(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception, match=r"closed|crashed"):
        await first.step(CLICK)
    await second.reset(seed=1)
    await first.close()
    await second.step(CLICK)
    await second.close()
    await gone(mark)


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.8])
async def test_a_cancelled_start_leaves_nothing_behind(mark, delay):
    environment = Web()
    reset = asyncio.create_task(environment.reset(seed=1))
    await asyncio.sleep(delay)
    reset.cancel()
    await asyncio.wait([reset])
    await environment.close()
    await gone(mark)


async def test_a_browser_that_cannot_start_leaves_nothing_behind(mark, monkeypatch):
    monkeypatch.setenv("MINTACT_CHROMIUM", "/bin/false")
    with pytest.raises(Exception, match="launch"):
        await SharedBrowser().acquire()
    await gone(mark)


async def test_each_loop_has_its_own_browser():
    assert shared_browser() is shared_browser()
    assert await asyncio.to_thread(lambda: asyncio.run(_other())) is not shared_browser()


async def _other():
    return shared_browser()


def test_without_a_browser_creation_fails_in_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MINTACT_CHROMIUM", "/nonexistent/chromium")
    assert browser_path() is None
    with pytest.raises(ConfigurationError) as caught:
        Web()
    assert "apt-get install chromium-headless-shell" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("refusals", "seen"), [(2, True), (99, False)])
async def test_a_picture_that_the_browser_could_not_draw_in_time_is_asked_for_again(
    refusals, seen, monkeypatch
):
    monkeypatch.setattr("mintact_env_micro.browser.CAPTURE_PAUSE_S", 0)
    shared = SharedBrowser()
    browser = await shared.acquire()
    async with open_view(browser, 64, 32) as view:
        send, left = view.session.send, [refusals]

        async def busy(method, params):
            left[0] -= 1
            if left[0] >= 0:
                raise RuntimeError(f"Protocol error ({method}): Unable to capture screenshot")
            return await send(method, params)

        monkeypatch.setattr(view.session, "send", busy)
        if seen:
            assert (await view.capture()).shape == (32, 64, 3)
        else:
            with pytest.raises(RuntimeError, match="Unable to capture"):
                await view.capture()
    await shared.release()
