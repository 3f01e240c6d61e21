# ruff: noqa: E501 (pages are written in one piece)
"""Pages that want to hang, flood or break out: refused or failed, in bounded time."""

import asyncio
import time

import pytest
from mintact_env_web import environment
from mintact_env_web.browser import frames, hands, memory

from mintact_platform.errors import EnvironmentFailure

pytestmark = [pytest.mark.runs, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
BOUND_S = 15


@pytest.fixture
def patient():
    """Every limit is what it is: pages that hang are to reach it."""


@pytest.fixture
def settle_s():
    return 2.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The same limits, reached sooner."""
    monkeypatch.setattr(frames, "CALL_DEADLINE_S", 2.0)
    monkeypatch.setattr(frames, "CAPTURE_DEADLINE_S", 2.0)
    monkeypatch.setattr(frames, "LOAD_LIMIT_S", 3.0)
    monkeypatch.setattr(hands, "ACT_DEADLINE_S", 3.0)
    monkeypatch.setitem(environment.DEADLINES_S, "reset", 8.0)


def button(script):
    return f"<!doctype html><body style='margin:20px'><button id=b onclick='{script}'>go</button>"


async def fails(call):
    """The failure of a call, which must come in time."""
    start = time.monotonic()
    with pytest.raises(EnvironmentFailure) as caught:
        await call
    assert time.monotonic() - start < BOUND_S
    return caught.value


async def outcome(call):
    """How a call ended that may fail or not; it must end in time."""
    start = time.monotonic()
    try:
        await call
    except EnvironmentFailure as failure:
        return failure.kind
    finally:
        assert time.monotonic() - start < BOUND_S
    return "shown"


LOOP = "while (true) {}"
FOREVER = {
    "dialogs": ("while (true) alert(1)", "crash", "dialogs without end"),
    "confirmations": ("while (confirm(1)) {}", "crash", "dialogs without end"),
    "a loop": (LOOP, "timeout", "does not answer"),
    "a loop of promises": ("const f = () => Promise.resolve().then(f); f()", "timeout", "answer"),
    "nested dialogs in a timer": (
        "setInterval(() => { while (true) alert(1) }, 0)",
        "crash",
        "end",
    ),
}


@pytest.mark.parametrize("name", FOREVER)
async def test_what_never_ends_fails_the_episode_and_the_next_one_starts(visit, name):
    script, kind, said = FOREVER[name]
    v = await visit(button(script))
    failure = await fails(v.click("#b"))
    assert (failure.phase, failure.kind) == ("step", kind)
    assert said in failure.what
    assert (await fails(v.environment.evaluate())).what.startswith("no episode is open")
    v.source.pages["/"] = button("document.title = 1")
    await v.reset()
    await v.click("#b")
    assert await v.page.title() == "1"


@pytest.mark.parametrize("script", ["while (true) {}", "while (true) alert(1)"])
async def test_a_start_page_that_never_ends_fails_the_reset(visit, script):
    v = await visit(f"<script>{script}</script>", reset=False)
    assert (await fails(v.reset())).phase == "reset"


async def test_a_hanging_page_does_not_stall_its_siblings(visit):
    bad, good = await visit(button(LOOP)), await visit(button("this.textContent += 1"))
    hanging = asyncio.create_task(fails(bad.click("#b")))
    steps = 0
    while not hanging.done():
        await good.click("#b")
        steps += 1
    assert (await hanging).kind == "timeout"
    assert await good.page.inner_text("#b") == "go" + "1" * steps
    assert steps >= 5


async def test_tabs_without_end_fail_the_episode(visit):
    v = await visit(button('setInterval(() => window.open("/"), 1)'))

    async def some():
        await v.click("#b")
        for _ in range(10):
            await v.act("wait")

    assert "without end" in (await fails(some())).what


async def test_a_page_of_many_nodes_fails_or_is_shown(visit):
    grow = 'document.body.innerHTML += "<p><b>x</b> y</p>".repeat(5e6)'
    v = await visit(button(grow))
    assert await outcome(v.click("#b")) in ("shown", "timeout", "crash")


async def test_a_page_that_takes_the_memory_loses_its_process(visit, browser):
    script = (
        "globalThis.held = []; for (let i = 0; i < 60; i++) held.push(new Uint8Array(1e7).fill(i))"
    )
    v, other = await visit(button(script)), await visit(button(""))
    await v.click("#b")
    assert memory.end_large(browser.mark, 500 << 20)
    failure = await fails(v.act("wait"))
    assert (failure.kind, failure.what) == ("crash", "the page's process died")
    await other.click("#b")


async def test_a_page_that_crashes_is_a_failure_while_a_call_waits(visit):
    v = await visit(button(LOOP))
    session = await v.page.context.new_cdp_session(v.page)
    click = asyncio.create_task(fails(v.click("#b")))
    await asyncio.sleep(0.3)
    crash = asyncio.create_task(session.send("Page.crash"))
    assert (await click).what == "the page's process died"
    await asyncio.wait([crash])
    crash.exception()


@pytest.mark.parametrize("url", [
    "file:///etc/passwd", "chrome://version", "chrome://crash", "view-source:http://site.test/",
    "data:text/html,hello", "about:settings", "devtools://devtools", "filesystem:http://site.test/x",
])  # fmt: skip
async def test_links_to_what_is_no_website_lead_nowhere(visit, url):
    v = await visit(f"<a id=a href='{url}'>a</a><a id=t href='{url}' target=_blank>t</a><p>here")
    for link in ("#a", "#t"):
        await v.click(link)
        assert v.page.url in ("http://site.test/", "about:blank", "about:blank#blocked")
        if len(v.screen.tabs) > 1:
            await v.act("close_tab")
    assert await v.page.inner_text("p") == "here"


async def test_a_tab_that_shows_what_it_may_not_goes_back_to_the_start(visit):
    v = await visit("<p>here")
    await v.page.goto("data:text/html,<p>elsewhere")
    assert "'data:' pages are refused" in await v.act("wait")
    assert v.page.url == "http://site.test/"


async def test_script_links_work(visit):
    v = await visit("<a id=a href='javascript:void(document.title = 1)'>a</a>")
    await v.click("#a")
    assert await v.page.title() == "1"


@pytest.mark.parametrize("body", [
    "<script>location.reload()</script>",
    "<script>setInterval(() => { location = '/?' + Math.random() }, 1)</script>",
    "<meta http-equiv=refresh content=0>",
    "<script>setInterval(() => history.pushState(0, '', '/' + Math.random()), 0)</script>",
    "<script>const f = () => fetch('/').then(f); f()</script>",
    "<script>const f = () => { document.body.append('x'); requestAnimationFrame(f) }; f()</script>",
    "<script>setInterval(() => document.body?.append('x'), 0)</script>",
    "<iframe src='/?1'></iframe>",
    "<script>onbeforeunload = (e) => e.preventDefault(); setInterval(() => { location = '/?x' }, 50)</script>",
])  # fmt: skip
async def test_pages_that_never_come_to_rest_are_shown_or_fail_in_time(visit, body):
    v = await visit(f"<!doctype html><p>x</p>{body}", reset=False, settle_s=0.5)
    assert await outcome(v.reset()) in ("shown", "timeout", "crash")
    assert await outcome(v.act("click", coordinate=[400, 400])) in ("shown", "timeout", "crash")


async def test_what_a_page_shouts_does_not_stall_its_siblings(visit):
    shout = """const long = 'x'.repeat(2e8); console.log(long); console.error({}, long);
      setTimeout(() => { throw new Error(long) }); Promise.reject(new Error(long));
      Promise.reject(long); document.title = long; history.pushState(0, '', '#' + long.slice(0, 1e6))"""
    bad = await visit(f"<button id=b>go</button><script>b.onclick = () => {{{shout}}}</script>")
    good = await visit(button("this.textContent += 1"))
    shouting = asyncio.create_task(bad.click("#b"))
    longest = 0.0
    for _ in range(20):
        start = time.monotonic()
        await good.act("click", coordinate=[600, 600])
        longest = max(longest, time.monotonic() - start)
    await asyncio.wait([shouting])
    shouting.exception()
    assert longest < 2


async def test_downloads_without_end_are_refused(visit):
    v = await visit(
        button('setInterval(() => { location = "/f" }, 20)'),
        {"/f": {"body": "x", "headers": {"content-disposition": "attachment; filename=f"}}},
    )
    said = await v.click("#b")
    for _ in range(10):
        if "downloaded already" not in said:
            said += await v.act("wait")
    assert "16 files were downloaded already" in said
    assert len(list(v.screen.downloads.directory.iterdir())) <= 16
