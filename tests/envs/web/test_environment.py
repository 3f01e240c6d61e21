import asyncio

import pytest
from mintact_env_web import environment
from mintact_env_web.environment import WebEnvironment
from mintact_env_web.live import Live

from mintact_platform.environments.asyncenv import AsyncEnvironment
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_it_is_an_asynchronous_environment_with_the_metadata_that_servers_read():
    assert isinstance(Live(), AsyncEnvironment)
    ours = WebEnvironment.metadata["mintact"]
    assert (ours["domain"], ours["action_space"]) == ("web", "browser_use")
    assert ours["instances_per_worker"] == 16
    assert all("chromium" in names for names in ours["requires"])


async def test_nothing_but_the_picture_is_shown_unless_the_url_is_wanted(visit):
    v = await visit("<title>x</title><p>words")
    assert v.text == ""
    w = await visit("<p>words", with_url=True)
    assert w.text == "URL: http://site.test/"
    assert await w.act("go_back") == "URL: http://site.test/\ngo_back: there is no previous page."


async def test_episodes_share_nothing(visit):
    show = "document.title = [localStorage.n, document.cookie];"
    v = await visit(f"<script>{show} localStorage.n = 1; document.cookie = 'a=1'</script>")
    await v.act("press", key="F5")
    assert await v.page.title() == "1,a=1"
    await v.reset()
    assert await v.page.title() == ","
    other = await visit(f"<script>{show}</script>")
    assert await other.page.title() == ","


async def test_the_tasks_seed_goes_before_the_call_s(visit):
    v = await visit("<p>x")
    seeds = []
    opened = v.source.open

    async def noted(context, task, seed):
        seeds.append(seed)
        return await opened(context, task, seed)

    v.source.open = noted
    for own in (None, 7):
        task = Task("t", "g", "web", seed=own).to_json()
        await v.environment.reset(seed=3, options={"task": task})
    assert seeds == [3, 7]


async def test_a_failure_that_the_source_reports_fails_the_next_step(visit):
    v = await visit("<p>x")
    v.source.failures.append("no recorded answer for http://site.test/next")
    with pytest.raises(EnvironmentFailure, match="no recorded answer") as caught:
        await v.act("wait")
    assert (caught.value.phase, caught.value.kind) == ("step", "invalid")
    await v.reset()
    await v.act("wait")


@pytest.mark.parametrize("phase", ["reset", "evaluate"])
async def test_a_source_that_raises_or_hangs_is_an_environment_failure(visit, phase, monkeypatch):
    name = {"reset": "open", "evaluate": "check"}[phase]

    async def broken(*_):
        raise ValueError("the shelf fell off")

    async def hangs(*_):
        await asyncio.Event().wait()

    for bad, said, kind in ((broken, "the shelf fell off", "crash"), (hangs, "answer", "timeout")):
        v = await visit("<p>x")
        setattr(v.source, name, bad)
        if bad is hangs:
            monkeypatch.setitem(environment.DEADLINES_S, phase, 1.0)
        with pytest.raises(EnvironmentFailure, match=said) as caught:
            await (v.reset() if phase == "reset" else v.environment.evaluate())
        assert (caught.value.phase, caught.value.kind) == (phase, kind)


async def test_before_reset_there_is_nothing_to_do(visit):
    v = await visit("<p>x", reset=False)
    for call in (v.act("wait"), v.environment.evaluate()):
        with pytest.raises(EnvironmentFailure, match="reset first"):
            await call


async def test_a_start_page_that_does_not_exist_is_a_failure_of_the_site(visit):
    v = await visit("<p>x", reset=False)
    v.source.start = "file:///etc/passwd"
    with pytest.raises(EnvironmentFailure, match="'file:' pages are refused"):
        await v.reset()
    v.source.pages["/"] = {"status": 500, "body": "broken"}
    v.source.start = "http://site.test/"
    with pytest.raises(EnvironmentFailure, match="status 500"):
        await v.reset()


async def test_the_host_is_full_of_nothing_after_failures(visit, browser):
    before = browser.contexts
    v = await visit("<p>x", reset=False)
    for _ in range(3):
        v.source.start = "file:///x"
        with pytest.raises(EnvironmentFailure):
            await v.reset()
    assert browser.contexts == before
