import asyncio
import contextlib
import os
import shutil
import signal
import tempfile

import pytest
from mintact_env_web.browser import driver as driver_module
from mintact_env_web.browser import frames, hands, host, launch, running
from mintact_env_web.browser.host import MAX_CONTEXTS, BrowserHost, ContextSpec, browser_host
from mintact_env_web.browser.launch import find_chromium, requirements
from mintact_env_web.browser.processes import browser_processes
from mintact_env_web.environment import WebEnvironment

from mintact_platform.environments.worker.main import check_requirements
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task

TASK = {"task": Task("t", "do it", "web").to_json()}
CLICK = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [16, 16]}}


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path, mark):
    """Every file that this test's processes make lies here."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


class Blank:
    failures = ()

    async def open(self, context, task, seed):
        async def answer(route):
            await route.fulfill(body=f"<!doctype html><p>{seed}", content_type="text/html")

        await context.route("**/*", answer)
        return "http://site.test/"

    async def check(self, page, task, answer):
        return None

    async def close(self):
        pass


def environment(**options):
    return WebEnvironment(Blank(), **options)


def browsers(started):
    return [pid for pid, line in started().items() if "--remote-debugging-pipe" in line]


def left(temporary):
    return [path for path in temporary.iterdir() if path.name != "dotnet-diagnostic"]


@pytest.mark.browser
async def test_environments_share_one_browser_and_the_last_one_ends_it(
    started, gone, temporary, first_ones
):
    first, second = environment(), environment()
    await asyncio.gather(first.reset(options=TASK), second.reset(options=TASK))
    shared = first_ones(browsers(started))
    await first.reset(options=TASK)
    await first.close()
    assert first_ones(browsers(started)) == shared != []
    await second.step(CLICK)
    await second.close()
    await second.close()
    await gone()
    assert left(temporary) == []


@pytest.mark.browser
async def test_a_killed_browser_fails_all_its_episodes_and_the_next_reset_starts_another(
    started, gone, temporary
):
    several = [environment() for _ in range(3)]
    for one in several:
        await one.reset(options=TASK)
    waiting = asyncio.create_task(
        several[0].step({"name": "browser_use", "arguments": {"action": "wait"}})
    )
    await asyncio.sleep(0.1)
    for pid in browsers(started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for call in (waiting, several[1].step(CLICK), several[2].evaluate()):
        with pytest.raises(EnvironmentFailure) as caught:
            await call
        assert (caught.value.kind, caught.value.what) == ("crash", "the browser died")
    await asyncio.gather(*(one.reset(options=TASK) for one in several))
    await several[2].step(CLICK)
    for one in several:
        await one.close()
    await gone()
    assert left(temporary) == []


@pytest.mark.browser
async def test_a_killed_driver_is_replaced(started, gone):
    one = environment()
    await one.reset(options=TASK)
    for pid, line in started().items():
        if "run-driver" in line:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure):
        await one.step(CLICK)
    await one.reset(options=TASK)
    await one.close()
    await gone()


@pytest.mark.browser
async def test_a_hanging_driver_is_killed_and_replaced(started, gone, monkeypatch):
    monkeypatch.setattr(host, "CLOSE_DEADLINE_S", 0.5)
    monkeypatch.setattr(running, "STOP_DEADLINE_S", 0.5)
    monkeypatch.setattr(driver_module, "STOP_DEADLINE_S", 0.5)
    one = environment()
    await one.reset(options=TASK)
    hung, start_browser = browser_host()._driver.playwright, host.start_browser

    async def given_up_early(driver, network):
        with monkeypatch.context() as hasty:
            if driver is hung:
                hasty.setattr(running, "LAUNCH_DEADLINE_S", 1)
            return await start_browser(driver, network)

    monkeypatch.setattr(host, "start_browser", given_up_early)
    for pid, line in started().items():
        if "run-driver" in line:
            os.kill(pid, signal.SIGSTOP)
    # the next driver has longer: a busy machine would miss these
    with monkeypatch.context() as hasty:
        hasty.setattr(frames, "CALL_DEADLINE_S", 0.5)
        hasty.setattr(frames, "CAPTURE_DEADLINE_S", 0.5)
        hasty.setattr(hands, "ACT_DEADLINE_S", 0.5)
        with pytest.raises(EnvironmentFailure) as caught:
            await one.step(CLICK)
    assert caught.value.kind == "timeout"
    await one.reset(options=TASK)
    await one.step(CLICK)
    await one.close()
    await gone()


@pytest.mark.browser
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0])
async def test_a_cancelled_reset_leaves_nothing_behind(gone, temporary, delay):
    one = environment()
    reset = asyncio.create_task(one.reset(options=TASK))
    await asyncio.sleep(delay)
    reset.cancel()
    await asyncio.wait([reset])
    await one.close()
    await gone()
    assert left(temporary) == []


@pytest.mark.browser
async def test_a_cancelled_step_ends_its_episode_and_no_other(browser_host_of_test):
    one, other = environment(), environment()
    await one.reset(options=TASK)
    await other.reset(options=TASK)
    for delay in (0, 0.005, 0.01, 0.02, 0.05):
        step = asyncio.create_task(one.step(CLICK))
        await asyncio.sleep(delay)
        step.cancel()
        await asyncio.wait([step])
        if step.cancelled():
            assert browser_host_of_test.contexts == 1
        await one.reset(options=TASK)
        assert browser_host_of_test.contexts == 2
        await other.step(CLICK)
    await one.close()
    await other.close()
    assert browser_host_of_test.contexts == 0


@pytest.fixture
async def browser_host_of_test():
    return browser_host()


@pytest.mark.browser
async def test_a_browser_that_cannot_start_is_said_in_a_line_and_leaves_nothing(
    gone, monkeypatch, temporary
):
    monkeypatch.setenv("MINTACT_CHROMIUM", "/bin/false")
    one = environment()
    with pytest.raises(EnvironmentFailure, match="the browser does not start") as caught:
        await one.reset(options=TASK)
    assert "\n" not in str(caught.value)
    await one.close()
    await gone()
    assert left(temporary) == []


@pytest.mark.browser
async def test_a_seventeenth_context_is_refused():
    own = BrowserHost()
    async with asyncio.timeout(60):
        contexts = [own.context(ContextSpec()) for _ in range(MAX_CONTEXTS)]
        for context in contexts:
            await context.__aenter__()
        assert own.contexts == MAX_CONTEXTS
        with pytest.raises(EnvironmentFailure, match="16 contexts are open"):
            async with own.context(ContextSpec()):
                pass
        for context in contexts:
            await context.__aexit__(None, None, None)
    assert own.contexts == 0
    assert own.mark is None


@pytest.mark.browser
async def test_a_context_that_does_not_close_retires_its_browser_and_spares_the_siblings(
    started, gone, monkeypatch
):
    own = BrowserHost()
    monkeypatch.setattr(host, "CLOSE_DEADLINE_S", 1.0)
    async with own.context(ContextSpec()) as sibling:
        page = await sibling.new_page()
        async with own.context(ContextSpec()) as context:

            async def never():
                await asyncio.Event().wait()

            monkeypatch.setattr(context, "close", never)
        first = own.mark
        async with own.context(ContextSpec()):
            assert own.mark != first
            assert len(browsers(started)) >= 2
            assert await page.evaluate("1") == 1
    await gone()


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap: apt-get install bubblewrap")
async def test_a_browser_without_network_shows_routed_pages_and_reaches_nothing(gone, temporary):
    reached = []

    async def accept(reader, writer):
        reached.append(1)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with browser_host("none").context(ContextSpec(network="none")) as context:
        await context.route("http://site.test/**", lambda route: route.fulfill(body="<p>here"))
        page = await context.new_page()
        await page.goto("http://site.test/")
        assert await page.inner_text("p") == "here"
        for proxy in (None, {"server": "direct://"}):
            browser = context.browser
            inner = await browser.new_context(**({"proxy": proxy} if proxy else {}))
            with pytest.raises(Exception, match="ERR_"):
                await (await inner.new_page()).goto(f"http://127.0.0.1:{port}/")
    server.close()
    assert reached == []
    await gone()
    assert left(temporary) == []


@pytest.mark.runs
@pytest.mark.browser
async def test_fifty_episodes_with_kills_leak_nothing(started, gone, temporary):
    several = [environment() for _ in range(4)]

    async def play(one, number):
        try:
            await one.reset(options=TASK)
            await one.step(CLICK)
            await one.step(CLICK)
        except EnvironmentFailure as failure:
            return failure.kind
        return "completed"

    outcomes = []
    for turn in range(13):
        plays = [asyncio.create_task(play(one, turn)) for one in several]
        if turn % 3 == 2:
            await asyncio.sleep(0.05 * turn)
            for pid in browsers(started):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        outcomes += await asyncio.gather(*plays)
    assert len(outcomes) == 52
    assert set(outcomes) <= {"completed", "crash"}
    assert outcomes.count("completed") >= 30
    held = browser_host()
    assert held.contexts <= 4
    alive = set(browser_processes(held.mark)) if held.mark else set()
    assert set(browsers(started)) <= alive
    for one in several:
        await one.close()
    assert held.contexts == 0
    await gone()
    assert left(temporary) == []


@pytest.mark.browser
async def test_each_loop_has_its_own_browser():
    assert browser_host() is browser_host("proxy-lock") is browser_host("open")
    assert browser_host() is not browser_host("none")
    other = await asyncio.to_thread(lambda: asyncio.run(_other()))
    assert other is not browser_host()


async def _other():
    return browser_host()


def test_without_a_browser_creation_fails_in_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MINTACT_CHROMIUM", "/nonexistent/chromium")
    assert find_chromium() is None
    with pytest.raises(ConfigurationError) as caught:
        environment()
    assert "apt-get install chromium-headless-shell" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert WebEnvironment.missing() is not None


def test_the_browser_is_found_by_variable_then_by_name(monkeypatch, tmp_path):
    for name in ("chromium", "google-chrome", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MINTACT_CHROMIUM", raising=False)
    assert find_chromium() == tmp_path / "chromium"
    check_requirements("web/live", {"requires": requirements()})
    monkeypatch.setenv("MINTACT_CHROMIUM", str(tmp_path / "mine"))
    assert find_chromium() == tmp_path / "mine"
    monkeypatch.setenv("PATH", "/nonexistent")
    check_requirements("web/live", {"requires": requirements()})
    monkeypatch.delenv("MINTACT_CHROMIUM")
    with pytest.raises(ConfigurationError, match="chromium-headless-shell"):
        check_requirements("web/live", {"requires": requirements()})
    with pytest.raises(ConfigurationError, match="no Chromium found"):
        launch.executable("none", tmp_path)
