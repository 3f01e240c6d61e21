import json
import socket

import pytest
from mintact_env_web.cache.record import Record
from mintact_env_web.cache.scripts import read_script
from mintact_env_web.cache.store import load
from mintact_env_web.cache.visits import record

from mintact_platform.errors import ConfigurationError, EnvironmentFailure

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def urls(site, visit=0):
    start = len(site.start) - 1
    return [
        f"{e.request.method} {e.request.url[start:]}"
        for e in site.entries
        if e.visit == visit and e.request.url.startswith(site.start)
    ]


async def test_every_request_of_every_visit_is_recorded_in_order(shop):
    site = shop.site
    assert site.visits == 2
    for visit in (0, 1):
        asked = [url.partition("?")[0] for url in urls(site, visit)]
        assert asked[0] == "GET /"
        assert asked.index("GET /old") < asked.index("GET /offers") < asked.index("POST /order")
        assert asked.count("POST /rpc") == 6
        assert asked[-1] == "GET /thanks"
        assert {"GET /frame", "GET /dot", "GET /zipped", "GET /video", "GET /moved"} <= {*asked}
    first = [entry for entry in site.entries if entry.visit == 0]
    assert [e.time_s for e in first] == sorted(e.time_s for e in first)
    assert all(entry.response is not None for entry in first)


@pytest.mark.runs
async def test_a_site_that_takes_its_time_over_bodies_and_sockets_is_recorded_whole(
    browser, site, folder, script
):
    site.pause_s = 0.7
    private = [f"localhost:{site.port}"]
    recorded = await record(site.url, folder / "slow", script=script, private=private, settle_s=30)
    for visit in (0, 1):
        asked = [url.partition("?")[0] for url in urls(recorded.site, visit)]
        assert asked[-1] == "GET /thanks"
        assert asked.count("POST /telemetry/click") == 2
    assert recorded.misses == ()


async def test_what_changes_between_visits_is_learnt(shop):
    endpoint = f"GET 127.0.0.1:{shop.live.port}/api"
    assert shop.site.rules.learnt == {endpoint: ("mood",)}
    assert f'"{endpoint}" = ["mood"]' in (shop.folder / "shop" / "site.toml").read_text()
    assert (shop.recorded.misses, shop.recorded.documents) == ((), ())


async def test_bodies_are_stored_decoded_and_requests_with_theirs(shop):
    entries = {e.request.url.rpartition("/")[2]: e for e in shop.site.entries if e.visit == 0}
    zipped = entries["zipped"].response
    assert zipped.header("content-encoding") == "gzip"
    stored = shop.folder / "shop" / "bodies" / zipped.body[:2] / zipped.body
    assert stored.read_bytes() == b"unzipped"
    assert b"q=tea&csrf=" in entries["order"].request.body
    assert json.loads(entries["rpc"].request.body)["op"] == "get"


async def test_sockets_are_recorded_with_both_sides(shop):
    socket = shop.site.sockets[0]
    told = [(frame.sent, frame.data) for frame in socket.frames]
    assert [told[0], *told[2:]] == [(False, "hello"), (False, "price=9"), (False, "end")]
    assert (told[1][0], json.loads(told[1][1])["ask"]) == (True, "price")


async def test_cookies_are_recorded_without_their_values(shop):
    page = shop.site.entries[0].response
    cookies = [value for name, value in page.headers if name == "set-cookie"]
    assert cookies == ["sid=redacted; Path=/", "b=redacted; HttpOnly"]
    assert {e.request.headers.get("cookie") for e in shop.site.entries} <= {None, "redacted"}


async def test_whoever_drives_the_environment_records(browser, site, folder, script, task):
    directory = folder / "driven"
    environment = Record(
        url=site.url, directory=str(directory), private=(site.url[7:-1],), settle_s=30.0
    )
    options = {"task": task("x").to_json()}
    try:
        for _ in range(2):
            await environment.reset(options=options)
            await environment.step({"name": "browser_use", "arguments": script[0]})
        await environment.step(
            {"name": "browser_use", "arguments": {"action": "stop", "response": "5"}}
        )
        written = load(directory)
        assert await environment.evaluate() is None
    finally:
        await environment.close()
    assert read_script(directory / "script.jsonl") == [
        script[0],
        {"action": "stop", "response": "5"},
    ]
    assert written.visits == 2
    assert urls(written)[0] == "GET /"
    assert urls(written)[-1].startswith("GET /offers")
    assert load(directory) == written


async def test_a_visit_that_was_not_stopped_is_written_at_the_end(browser, site, folder, task):
    environment = Record(
        url=site.url, directory=str(folder), private=(site.url[7:-1],), keep_secrets=True
    )
    try:
        await environment.reset(options={"task": task("x").to_json()})
    finally:
        await environment.close()
    written = load(folder)
    assert "GET /frame" in {url.partition("?")[0] for url in urls(written)}
    assert "redacted" not in repr(written)


async def test_a_private_address_is_recorded_only_when_it_is_named(browser, site, folder, task):
    environment = Record(url=site.url, directory=str(folder))
    try:
        await environment.reset(options={"task": task("x").to_json()})
        await environment.step({"name": "browser_use", "arguments": {"action": "stop"}})
    finally:
        await environment.close()
    assert not site.hits
    assert all(e.response is None or e.response.status == 403 for e in load(folder).entries)


async def test_a_directory_of_something_else_is_not_overwritten(browser, site, folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("x")
    with pytest.raises(ConfigurationError, match="not empty and not a recorded site"):
        await record(site.url, folder)
    with pytest.raises(ConfigurationError, match="not a web address"):
        await record("file:///etc/passwd", folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


async def test_a_site_that_does_not_answer_fails(browser, folder):
    # bound and not listening: nobody else can answer there
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(EnvironmentFailure):
            await record(f"http://127.0.0.1:{silent.getsockname()[1]}/", folder)


async def test_scripts_are_bare_arguments_or_calls(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"action": "wait"}\n\n{"name": "browser_use", "arguments": {"action": "stop"}}\n'
    )
    assert read_script(path) == [{"action": "wait"}, {"action": "stop"}]
    path.write_text('{"action": "wait"}\n{"click": 1}\n')
    with pytest.raises(ConfigurationError, match=r"s.jsonl:2: not a call"):
        read_script(path)
