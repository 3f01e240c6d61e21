# ruff: noqa: E501 (pages and tables are written in one piece)
import asyncio
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mintact_env_web.browser.processes import browser_processes
from mintact_env_web.cache.exchange import Frame, Socket
from mintact_env_web.cache.rules import Rules

from mintact_platform.errors import ConfigurationError, EnvironmentFailure

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def trap(shop):
    """The connections that come to where the recorded site was."""
    shop.live.heard.clear()
    return shop.live.heard


async def test_a_recording_answers_everything_its_pages_ask_for(shop, replay, trap):
    one = await replay(shop.folder)
    assert await one.lines() == {
        "epoch": "api a",
        "session": "api b",
        "learnt": "api c",
        "list 1": "list 1",
        "list 2": "list 2",
        "get": "did get",
        "gzip": "unzipped",
        "range": "206 KLMNOPQRST",
        "moved": "api moved",
        "worker": "none",
        "socket": "hello price=9 end",
        "cookie": "sid",
        "no cors": "error Failed to fetch",
        "cors": "put",
        "day": str(datetime.fromtimestamp(shop.site.recorded_ms / 1000, UTC).year),
    }
    assert await one.page.frame_locator("iframe").locator("p").inner_text() == "in a frame"
    assert one.info["replay"] | {"similar": [], "missed": []} == {
        "recorded": one.counts.recorded, "nearest": 0, "stubs": 1, "misses": 0,
        "similar": [], "missed": [],
    }  # fmt: skip
    assert trap == []


async def test_responses_of_one_key_come_in_the_order_of_the_recording(shop, replay, script):
    one = await replay(shop.folder, script[:2])
    lines = await one.lines()
    assert (lines["list 1"], lines["list 2"]) == ("list 3", "list 4")
    await one.page.reload()
    await one.act({"action": "wait"})
    lines = await one.lines()
    assert (lines["list 1"], lines["list 2"]) == ("list 4", "list 4"), "the last one repeats"


async def test_redirects_lead_where_they_led_and_back(shop, replay, script):
    one = await replay(shop.folder, script[:1])
    assert one.page.url.split("?")[0].endswith("/offers")
    assert one.page.url.endswith("#top")
    await one.act({"action": "go_back"})
    assert one.page.url == shop.site.start
    await one.act(script[2])
    assert one.page.url.endswith("/thanks")
    assert await one.page.inner_text("h1") == "Thank you"


@pytest.mark.runs
async def test_twenty_replays_give_the_same_pictures_and_send_no_packet(shop, replay, script, trap):
    async def pictures():
        one = await replay(shop.folder, script)
        assert one.counts.misses == 0
        await one.environment.close()
        return tuple(hashlib.sha256(shot).hexdigest() for shot in one.shots)

    seen = []
    for _ in range(5):
        seen += await asyncio.gather(*(pictures() for _ in range(4)))
    assert len(seen) == 20
    assert len(set(seen)) == 1
    assert len(set(seen[0])) >= 3, "and the pages differ"
    assert trap == []


async def test_a_browser_without_network_replays_the_same(shop, replay, script):
    try:
        alone = await replay(shop.folder, script, network="none")
    except ConfigurationError as error:
        pytest.skip(str(error))
    usual = await replay(shop.folder, script)
    assert alone.shots == usual.shots
    host = alone.environment._host
    sent = {pid: sent_by(pid) for pid in browser_processes(host.mark)}
    assert [devices for devices in sent.values() if devices] != []
    assert all(devices in (None, {"lo": 0}) for devices in sent.values()), sent


def sent_by(pid):
    """Bytes that left by each network device of a browser's process; None when it has ended."""
    try:
        # the program that takes the network away keeps its own
        if Path(f"/proc/{pid}/comm").read_text().strip() in ("bwrap", "unshare"):
            return None
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return None
    pairs = (line.split(":") for line in lines)
    return {name.strip(): int(numbers.split()[8]) for name, numbers in pairs}


async def test_nothing_unrecorded_leaves_the_context(written, replay, trap, shop):
    local = shop.live.url
    written.on(
        "/",
        f"""<p id=p></p><script>
    fetch("{local}x").then((r) => r.status, (e) => "error").then((v) => {{ p.textContent = v; }});
    new Image().src = "{local}y"; new WebSocket("{local.replace("http", "ws")}z");
    new EventSource("{local}e"); navigator.sendBeacon("{local}b", "1");
    </script>""",
    )
    one = await replay(written.save(), site="written")
    async with asyncio.timeout(60):
        # the page says nothing of its image and its source of events
        while one.counts.misses < 3:
            await asyncio.sleep(0.01)
    await one.act({"action": "wait"})
    assert await one.page.inner_text("#p") == "404"
    assert one.counts.misses == 3
    assert f"GET {local}x" in one.info["replay"]["missed"]
    assert trap == []


async def test_a_missing_document_fails_the_episode(written, replay):
    written.on("/", "<a href='/gone' style='position:fixed;left:0;top:0'>x</a>")
    one = await replay(written.save(), site="written")
    with pytest.raises(
        EnvironmentFailure, match=r"no document for GET http://site.test/gone"
    ) as caught:
        await one.act({"action": "click", "coordinate": [3, 8]})
    assert (caught.value.phase, caught.value.kind) == ("step", "invalid")


async def test_a_missing_frame_counts_only_on_the_site_itself(written, replay):
    written.on("/", "<iframe src='http://ads.test/x'></iframe>")
    one = await replay(written.save(), site="written")
    assert one.counts.missed == ["GET http://ads.test/x"]
    written.entries.clear()
    written.on("/", "<iframe src='/inner'></iframe>")
    with pytest.raises(EnvironmentFailure, match="no document"):
        await replay(written.save(), site="written")


async def test_a_similar_request_answers_above_the_score_and_is_told(written, replay, caplog):
    asked = "a=1&b=2&c=3&d=4&e=5&f=6"
    written.on(
        "/",
        """<p id=p></p><script>
    const get = (q) => fetch("/api?" + q).then((r) => r.text());
    Promise.all([get("a=1&b=2&c=3&d=4&e=5&f=7777777"), get("a=9&b=9&c=3")])
      .then((v) => { p.textContent = v; });</script>""",
    )
    written.on(f"/api?{asked}", "found")
    one = await replay(written.save(Rules(nearest=0.8)), site="written")
    assert await one.page.inner_text("#p") == "found,not recorded"
    assert (one.counts.nearest, one.counts.misses) == (1, 1)
    ((asked_for, given, score),) = one.info["replay"]["similar"]
    assert (asked_for.endswith("f=7777777"), given) == (True, f"http://site.test/api?{asked}")
    assert 0.8 <= score < 1
    assert "answered by" in caplog.text


async def test_analytics_get_an_empty_answer(written, replay):
    written.on(
        "/",
        """<p id=p></p><script src="https://www.googletagmanager.com/gtag/js?id=1"></script>
    <script>Promise.all([
      fetch("https://www.google-analytics.com/g/collect?v=2", { method: "POST" }).then((r) => r.status),
      fetch("/telemetry/load").then((r) => r.status),
    ]).then((v) => { p.textContent = v; });</script>""",
    )
    one = await replay(written.save(), site="written")
    assert await one.page.inner_text("#p") == "204,204"
    assert (one.counts.stubs, one.counts.misses) == (3, 0)


async def test_clock_and_randomness_are_those_of_the_recording(written, replay):
    written.on(
        "/",
        """<p id=p></p><script>
    const seen = { now: Date.now(), date: new Date().toISOString(), text: Date().slice(11, 15),
      random: Math.random(), uuid: "", bytes: [...crypto.getRandomValues(new Uint8Array(3))],
      year: new Intl.DateTimeFormat("en", { year: "numeric" }).format(), online: navigator.onLine,
      origin: Math.round(performance.timeOrigin), given: new Date(0).getTime(), is: new Date() instanceof Date };
    const busy = Date.now(); while (Date.now() - busy < 20);
    let debounced = Date.now();
    setTimeout(() => { seen.debounced = Date.now() - debounced;
      let frames = 0, start = Date.now();
      requestAnimationFrame(function step() {
        if (++frames < 12) return requestAnimationFrame(step);
        seen.animated = Date.now() - start > 150;
        p.textContent = JSON.stringify(seen);
      });
    }, 150);</script>""",
    )
    folder = written.save()
    first, second = await replay(folder, site="written"), await replay(folder, site="written")
    for one in (first, second):
        # frames that change no pixel do not hold a picture up, so the page may still count them
        await one.page.locator("#p:not(:empty)").wait_for()
    seen = json.loads(await first.page.inner_text("#p"))
    assert seen == json.loads(await second.page.inner_text("#p"))
    assert seen["now"] == seen["origin"] == 1_700_000_000_000
    assert seen["date"] == "2023-11-14T22:13:20.000Z"
    assert (seen["text"], seen["year"]) == ("2023", "2023")
    assert (seen["online"], seen["given"], seen["is"]) == (True, 0, True)
    assert seen["debounced"] == 150
    assert seen["animated"]


async def test_a_range_is_cut_from_the_whole_body(written, replay):
    written.on(
        "/",
        """<p id=p></p><script>
    const part = (range) => fetch("/film", { headers: { range } })
      .then(async (r) => [r.status, r.headers.get("content-range"), await r.text()].join(" "));
    Promise.all(["bytes=2-4", "bytes=-3", "bytes=7-"].map(part)).then((v) => { p.textContent = v; });
    </script>""",
    )
    written.on("/film", b"0123456789", kind="video/mp4")
    one = await replay(written.save(), site="written")
    assert await one.page.inner_text("#p") == (
        "206 bytes 2-4/10 234,206 bytes 7-9/10 789,206 bytes 7-9/10 789"
    )


async def test_cookies_are_set_by_responses_and_by_redirects(written, replay):
    written.on("/", "", status=302, location="/in", set_cookie="a=1; Path=/")
    written.on(
        "/in",
        """<p id=p></p><script>fetch("/api").then(() => {
      p.textContent = document.cookie.split("; ").sort().join(" "); });</script>""",
        set_cookie="b=2",
    )
    written.on("/api", "", status=302, location="/deep", set_cookie="c=3; Path=/")
    written.on("/deep", "ok", kind="text/plain", set_cookie="d=4; Path=/")
    one = await replay(written.save(), site="written")
    assert one.page.url == "http://site.test/in"
    assert await one.page.inner_text("#p") == "a=1 b=2 c=3 d=4"


async def test_a_form_is_sent_on_when_the_redirect_keeps_its_method(written, replay):
    form = "<form method=post action=/a><input name=x value='1 & 2'><button id=b>go</button></form>"
    written.on("/", f"{form}<style>#b{{position:fixed;left:0;top:0}}</style>")
    written.on("/a", "", method="POST", status=307, location="/b", asked=b"x=1+%26+2",
               ask_content_type="application/x-www-form-urlencoded")  # fmt: skip
    written.on("/b", "<h1>kept</h1>", method="POST", asked=b"x=1+%26+2",
               ask_content_type="application/x-www-form-urlencoded")  # fmt: skip
    one = await replay(written.save(), [{"action": "click", "coordinate": [5, 5]}], site="written")
    assert (one.page.url, await one.page.inner_text("h1")) == ("http://site.test/b", "kept")


async def test_a_form_with_files_matches_whatever_its_boundary(written, replay):
    body = b'------x\r\nContent-Disposition: form-data; name="who"\r\n\r\nAnn\r\n------x--\r\n'
    written.on(
        "/",
        """<p id=p></p><script>const form = new FormData(); form.append("who", "Ann");
    fetch("/up", { method: "POST", body: form }).then((r) => r.text()).then((t) => { p.textContent = t; });
    </script>""",
    )
    written.on("/up", "stored", method="POST", asked=body,
               ask_content_type="multipart/form-data; boundary=----x")  # fmt: skip
    one = await replay(written.save(), site="written")
    assert await one.page.inner_text("#p") == "stored"


async def test_a_socket_answers_in_order_after_the_messages_it_knows(written, replay):
    written.on(
        "/",
        """<p id=p></p><script>
    const socket = new WebSocket("ws://site.test/live?t=" + Date.now()), heard = [];
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { socket.send("unknown"); socket.send('{"n":1,"ts":5}'); socket.send("x"); };
    socket.onmessage = (e) => heard.push(e.data instanceof ArrayBuffer ? "bytes " + e.data.byteLength : e.data);
    socket.onclose = () => { p.textContent = heard.join(" "); };</script>""",
    )
    frames = (Frame(False, "hi"), Frame(True, '{"ts": 1, "n": 1}'), Frame(False, "one"),
              Frame(False, b"\x00\xff"), Frame(True, "x"), Frame(False, "bye"))  # fmt: skip
    written.sockets.append(Socket("ws://site.test/live?t=1700000000123", frames, closed=True))
    one = await replay(written.save(), site="written")
    await one.page.locator("#p:not(:empty)").wait_for()
    assert await one.page.inner_text("#p") == "hi one bytes 2 bye"


async def test_a_socket_without_recording_errs_at_once(written, replay):
    written.on(
        "/",
        """<p id=p></p><script>
    const open = (url) => new Promise((done) => { const s = new WebSocket(url);
      s.onerror = () => done("error"); s.onopen = () => done("open"); });
    Promise.all([open("ws://other.test/x"), open("ws://site.test/live?room=2")])
      .then((v) => { p.textContent = v; });</script>""",
    )
    written.sockets.append(Socket("ws://site.test/live?room=1"))
    one = await replay(written.save(), site="written")
    await one.page.locator("#p:not(:empty)").wait_for()
    assert await one.page.inner_text("#p") == "error,error"


async def test_a_site_outside_the_directory_is_refused(written, replay):
    written.on("/", "x")
    folder = written.save()
    with pytest.raises(ConfigurationError, match="lies outside"):
        await replay(folder, site="../sites/../..")
    with pytest.raises(ConfigurationError, match="no recorded site"):
        await replay(folder, site="unknown")


async def test_the_check_reads_the_end_of_the_episode(written, replay):
    written.on(
        "/",
        """<h1>Tea</h1><script>fetch("/cart", { method: "POST", body: '{"item":"tea"}',
    headers: { "content-type": "application/json" } });</script>""",
    )
    written.on(
        "/cart", "ok", method="POST", asked=b'{"item": "tea"}', ask_content_type="application/json"
    )
    check = {
        "answer": ["4.80"], "url": "site.test/$", "text": "tea",
        "request": {"method": "post", "url": "/cart$", "body": {"item": "tea"}},
    }  # fmt: skip
    one = await replay(written.save(), site="written", params={"check": check})
    assert (await one.environment.evaluate()).details["holds"] == {
        "answer": False, "url": True, "text": True, "request": True,
    }  # fmt: skip
    await one.act({"action": "stop", "response": "It is  4.80 €"})
    verdict = await one.environment.evaluate()
    assert verdict.success
    assert verdict.details["replay"]["misses"] == 0


async def test_a_body_that_was_lost_fails_the_episode(written, replay):
    written.on("/", "<img src=/pic>").on("/pic", b"GIF89a", kind="image/gif")
    folder = written.save()
    name = written.entries[1].response.body
    (folder / "written" / "bodies" / name[:2] / name).unlink()
    with pytest.raises(EnvironmentFailure, match=f"body '{name}' is missing"):
        await replay(folder, site="written")
