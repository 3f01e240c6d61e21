# ruff: noqa: E501 (the page is written in one piece)
"""A real site on a real port, with everything that makes recordings hard; and how it is recorded."""

import base64
import gzip
import hashlib
import http.server
import json
import random
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from mintact_env_web.cache.environment import Cache
from mintact_env_web.cache.exchange import Entry, Request, Response
from mintact_env_web.cache.rules import Rules
from mintact_env_web.cache.store import Bodies, save
from mintact_env_web.cache.store import Site as Stored
from mintact_env_web.cache.visits import Recorded, record

from mintact_platform.records.task import Task

HOME = """<!doctype html><title>Shop</title><h1>Shop</h1><p id=out></p>
<iframe src="/frame?sess=%s" width=300 height=60></iframe>
<p><a id=go style="position:fixed;left:700px;top:20px" href="/old?from=home">Offers</a></p>
<form id=f method=post action=/order><input id=q name=q value=tea><input type=hidden name=csrf value=%s>
<button id=send style="position:fixed;left:700px;top:60px">Order</button></form><pre id=log></pre>
<script>
const lines = {};
async function note(name, work) {
  let value;
  try { value = await work; } catch (error) { value = "error " + error.message; }
  lines[name] = value;
  log.textContent = Object.keys(lines).sort().map((key) => key + ": " + lines[key]).join("\\n");
}
const post = (body) => fetch("/rpc", { method: "POST", body, headers: { "content-type": "application/json" } })
  .then((r) => r.text());
const token = () => Math.random().toString(36).slice(2) + Math.random().toString(36).slice(2);
(async () => {
  await note("epoch", fetch("/api?now_is=" + Date.now() + "&q=a").then((r) => r.text()));
  await note("session", fetch("/api?q=b&visitor=" + token()).then((r) => r.text()));
  const word = Array.from({ length: 7 }, () => "abcdefgh"[Math.floor(Math.random() * 8)]).join("");
  await note("learnt", fetch("/api?q=c&mood=" + word).then((r) => r.text()));
  await note("list 1", post('{"op":"list"}'));
  await note("list 2", post('{"op":"list"}'));
  await note("get", post(JSON.stringify({ op: "get", at: Date.now() })));
  await note("gzip", fetch("/zipped").then((r) => r.text()));
  await note("range", fetch("/video", { headers: { range: "bytes=10-19" } }).then(async (r) => r.status + " " + await r.text()));
  await note("moved", fetch("/moved").then((r) => r.text()));
  await note("worker", navigator.serviceWorker
    ? navigator.serviceWorker.register("/sw.js").then(() => navigator.serviceWorker.ready).then(() => "ready") : "none");
  await note("socket", new Promise((done) => {
    const socket = new WebSocket("ws://" + location.host + "/ws?t=" + Date.now());
    const heard = [];
    socket.onmessage = (event) => {
      heard.push(event.data);
      if (heard.length === 1) socket.send(JSON.stringify({ ask: "price", ts: Date.now() }));
      if (heard.length === 3) done(heard.join(" "));
    };
    socket.onerror = () => done("socket error");
  }));
  await note("cookie", Promise.resolve(document.cookie.replace(/=.*/, "")));
  navigator.sendBeacon("/telemetry/click", "x" + Date.now());
  await note("no cors", fetch(FOREIGN + "/api?q=foreign").then((r) => r.text()));
  await note("cors", fetch(FOREIGN + "/open", { method: "PUT", headers: { "x-own": "1" }, body: "{}" }).then((r) => r.text()));
  await note("day", Promise.resolve(new Date().toISOString().slice(0, 4)));
  out.textContent = "ready";
})();
</script>"""


class Site:
    """A server that counts what it answers.

    Attributes:
        pause_s: between the head and the body of an answer, and before a socket answers.
    """

    def __init__(self):
        self.hits = []
        self.pause_s = 0
        self.lists = 0
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                site.hits.append(f"GET {self.path}")
                if self.headers.get("upgrade", "").lower() == "websocket":
                    return _talk(self, site)
                return _get(self, site)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                site.hits.append(f"POST {self.path}")
                return _post(self, site, body)

            def do_PUT(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                return _send(
                    self, b"put", site=site, headers=[("access-control-allow-origin", "*")]
                )

            def do_OPTIONS(self):
                site.hits.append(f"OPTIONS {self.path}")
                allowed = [(f"access-control-allow-{n}", "*") for n in ("origin", "methods")]
                allowed.append(("access-control-allow-headers", "x-own"))
                return _send(self, b"", status=204, headers=allowed)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fall_silent(self):
        """Answer nobody any more; the port stays ours, and whoever comes is noted in `heard`."""
        heard = self.heard = []

        class Silent(http.server.BaseHTTPRequestHandler):
            def handle(self):
                heard.append(self.client_address)

        self.server.RequestHandlerClass = Silent

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def _send(handler, body, kind="text/plain; charset=utf-8", status=200, headers=(), site=None):
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    if status != 204:
        handler.send_header("Content-Length", str(len(body)))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    if site is not None:
        time.sleep(site.pause_s)
    handler.wfile.write(body)


def _get(handler, site):
    parts = urlsplit(handler.path)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    secret = f"{random.getrandbits(64):016x}"
    if parts.path == "/":
        page = HOME % (secret, secret)
        page = page.replace("FOREIGN", json.dumps(f"http://localhost:{site.port}"))
        cookies = [("Set-Cookie", f"sid={secret}; Path=/"), ("Set-Cookie", "b=2; HttpOnly")]
        return _send(handler, page.encode(), "text/html; charset=utf-8", headers=cookies)
    if parts.path == "/frame":
        return _send(handler, b"<p>in a frame<img src='/dot?_=1'>", "text/html")
    if parts.path == "/old":
        return _send(handler, b"", status=302, headers=[("Location", f"/offers?sess={secret}#top")])
    if parts.path == "/offers":
        return _send(
            handler,
            b"<h1>Offers</h1><a id=home style='position:fixed;left:700px;top:100px' href='/'>Home</a>",
            "text/html",
        )
    if parts.path == "/thanks":
        return _send(handler, b"<h1>Thank you</h1>Order 4711", "text/html")
    if parts.path == "/api":
        return _send(handler, f"api {query['q']}".encode(), site=site)
    if parts.path == "/zipped":
        return _send(handler, gzip.compress(b"unzipped"), headers=[("Content-Encoding", "gzip")])
    if parts.path == "/moved":
        return _send(handler, b"", status=302, headers=[("Location", "/api?q=moved")])
    if parts.path == "/video":
        whole = bytes(range(65, 91)) * 4
        first, last = handler.headers["range"].removeprefix("bytes=").split("-")
        piece = whole[int(first) : int(last or len(whole) - 1) + 1]
        place = f"bytes {first}-{int(first) + len(piece) - 1}/{len(whole)}"
        return _send(handler, piece, status=206, headers=[("Content-Range", place)])
    if parts.path == "/sw.js":
        return _send(handler, b"", "text/javascript")
    if parts.path == "/dot":
        return _send(handler, base64.b64decode("R0lGODlhAQABAAAAACw="), "image/gif")
    return _send(handler, b"not found", status=404)


def _post(handler, site, body):
    if handler.path == "/order":
        return _send(handler, b"", status=303, headers=[("Location", "/thanks")])
    if handler.path == "/rpc":
        operation = json.loads(body)["op"]
        if operation == "list":
            site.lists += 1
            return _send(handler, f"list {site.lists}".encode())
        return _send(handler, f"did {operation}".encode())
    return _send(handler, b"", status=204)


def _talk(handler, site):
    time.sleep(site.pause_s)
    key = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    handler.send_response(101)
    for name, value in (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept),
    ):
        handler.send_header(name, value)
    handler.end_headers()
    handler.close_connection = True
    say = lambda text: handler.wfile.write(struct.pack("!BB", 0x81, len(text)) + text.encode())  # noqa: E731
    say("hello")
    try:
        _, second = handler.rfile.read(2)
        length, mask = second & 127, handler.rfile.read(4)
        data = handler.rfile.read(length)
        time.sleep(site.pause_s)
        ask = json.loads(bytes(b ^ mask[i % 4] for i, b in enumerate(data)))["ask"]
        say(f"{ask}=9")
        say("end")
        handler.rfile.read(1)
    except (ValueError, OSError):
        return


def click(x, y):
    return {"action": "click", "coordinate": [x, y]}


SCRIPT = [click(715, 28), click(715, 108), click(715, 70)]
"""To the offers, home again, and an order."""


@pytest.fixture
def script():
    return SCRIPT


@pytest.fixture
def site():
    """The site, alive until the test closes it."""
    one = Site()
    yield one
    one.close()


@pytest.fixture
def folder(tmp_path):
    """Where sites are recorded."""
    return Path(tmp_path) / "sites"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(tmp_path_factory, browser, patience):
    """A directory of sites with one, `shop`, recorded in two visits; its server is silent."""
    folder = tmp_path_factory.mktemp("recorded") / "sites"
    site = Site()
    try:
        with patience():
            recorded = await record(
                site.url,
                folder / "shop",
                script=SCRIPT,
                private=[f"localhost:{site.port}"],
                settle_s=30.0,
            )
        site.fall_silent()
        yield Shop(folder, recorded, site)
    finally:
        site.close()


@dataclass
class Shop:
    """A recording of `Site`.

    Attributes:
        folder: of all sites.
        recorded: what was said of it.
        live: the server that was recorded, silent.
    """

    folder: Path
    recorded: Recorded
    live: Site

    @property
    def site(self):
        return self.recorded.site


@pytest.fixture
def task():
    """A task on a recorded site."""

    def make(site="shop", **params):
        return Task(f"t/{site}", "look", "web", params={"site": site, **params}, seed=0)

    return make


@pytest_asyncio.fixture(loop_scope="session")
async def replay(browser, task):
    """Open a recorded site; with a script, carry it out."""
    opened = []

    async def start(folder, script=(), *, site="shop", params=None, **options):
        # on a busy machine a page takes its time to come to rest
        one = Replayed(Cache(sites=str(folder), settle_s=15.0, **options))
        opened.append(one.environment)
        await one.reset(task(site, **(params or {})))
        for call in script:
            await one.act(call)
        return one

    yield start
    for environment in opened:
        await environment.close()


@dataclass
class Replayed:
    """An episode on a recorded site."""

    environment: Cache
    shots: list = field(default_factory=list)
    info: dict = field(default_factory=dict)

    @property
    def page(self):
        return self.environment.page

    @property
    def counts(self):
        return self.environment.source.counts

    async def reset(self, task):
        observation, self.info = await self.environment.reset(options={"task": task.to_json()})
        self.shots = [observation["screenshot"]]

    async def act(self, call):
        action = {"name": "browser_use", "arguments": call}
        observation, _, _, _, self.info = await self.environment.step(action)
        self.shots.append(observation["screenshot"])

    async def lines(self):
        """What the page of the shop found out, by name."""
        await self.page.locator("#out", has_text="ready").wait_for()
        text = await self.page.inner_text("#log")
        return dict(line.split(": ", 1) for line in text.splitlines())


@dataclass
class Written:
    """A site that is written down instead of recorded: exchanges in order."""

    folder: Path
    entries: list = field(default_factory=list)
    sockets: list = field(default_factory=list)
    host: str = "http://site.test"

    def on(
        self, path, body="", *, method="GET", status=200, kind="text/html", asked=b"", **headers
    ):
        """A request and its response; names of headers with `_` for `-`."""
        bodies = Bodies(self.folder / "written")
        sent = {name[4:].replace("_", "-"): v for name, v in headers.items() if name[:4] == "ask_"}
        answered = [("content-type", kind)]
        answered += [(n.replace("_", "-"), v) for n, v in headers.items() if n[:4] != "ask_"]
        data = body if isinstance(body, bytes) else body.encode()
        url = path if "://" in path else f"{self.host}{path}"
        request = Request(method, url, sent, asked or None, "document")
        response = Response(status, tuple(answered), bodies.put(data) if data else None)
        self.entries.append(Entry(request, response))
        return self

    def save(self, rules=None):
        site = Stored(f"{self.host}/", 1_700_000_000_000, seed=7, rules=rules or Rules(),
                      entries=tuple(self.entries), sockets=tuple(self.sockets))  # fmt: skip
        save(site, self.folder / "written")
        return self.folder


@pytest.fixture
def written(folder):
    return Written(folder)
