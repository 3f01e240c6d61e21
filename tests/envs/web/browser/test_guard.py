# ruff: noqa: E501 (requests and addresses are written in one piece)
import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_web.browser.guard import Policy, is_public, refusal
from mintact_env_web.browser.proxy import GuardProxy, Refused, read_request

from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task


@asynccontextmanager
async def site(answer):
    """A local HTTP server: path to bytes of a response; what was asked."""
    asked = []

    async def serve(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            asked.append(path)
            await answer(path, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()


def page(text, status="200 OK", extra=""):
    body = text.encode()
    return (f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{extra}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body  # fmt: skip


@pytest.mark.parametrize(("address", "public"), [
    ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("127.0.0.1", False), ("::1", False),
    ("10.1.2.3", False), ("192.168.0.1", False), ("172.16.9.9", False), ("169.254.169.254", False),
    ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False), ("fe80::1%eth0", False),
    ("::ffff:127.0.0.1", False), ("2002:7f00:1::", False), ("fd00::1", False), ("name", False),
    ("::", False), ("255.255.255.255", False),
])  # fmt: skip
def test_only_addresses_of_the_internet_are_public(address, public):
    assert is_public(address) is public


@pytest.mark.parametrize("url", [
    "file:///etc/passwd", "chrome://version", "data:text/html,x", "javascript:alert(1)", "ftp://a/b",
    "view-source:http://a.example/", "FILE:///x", "blob:file:///x", "http:///nohost", "about:config",
])  # fmt: skip
def test_what_is_no_website_is_refused(url):
    assert refusal(url) is not None


@given(st.text())
def test_only_web_schemes_pass_whatever_the_url(text):
    if refusal(text) is None and text:
        assert text.lower().startswith(
            ("http:", "https:", "about:blank", "about:srcdoc", "blob:", "chrome-error:")
        )


@pytest.mark.parametrize("head", [
    b"GET /relative HTTP/1.1\r\n\r\n", b"GET ftp://a/ HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n",
    b"\xff\xfe HTTP\r\n\r\n", b"GET http:///x HTTP/1.1\r\n\r\n", b"CONNECT a:99999 HTTP/1.1\r\n\r\n",
])  # fmt: skip
def test_what_is_no_request_to_a_proxy_is_refused(head):
    with pytest.raises(Refused):
        read_request(head)


def test_a_plain_request_is_sent_on_without_what_is_for_the_proxy():
    head = b"GET http://a.example:81/x?y=1 HTTP/1.1\r\nHost: a.example:81\r\nProxy-Connection: k\r\nA: b\r\n\r\n"
    host, port, first = read_request(head)
    assert (host, port) == ("a.example", 81)
    assert (
        first == b"GET /x?y=1 HTTP/1.1\r\nHost: a.example:81\r\nA: b\r\nConnection: close\r\n\r\n"
    )


async def ask(proxy, line):
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    reply = await reader.read()
    writer.close()
    return reply.partition(b"\r\n")[0].decode()


async def test_a_name_that_resolves_to_a_private_address_is_refused_at_the_connection():
    async def resolve(host, port):
        return {"evil.example": ["127.0.0.1"], "mixed.example": ["10.0.0.1", "::1"]}[host]

    async def answer(path, writer):
        writer.write(page("reached"))

    async with site(answer) as (port, asked):
        proxy = await GuardProxy.start(Policy(), resolve)
        assert "403" in await ask(proxy, f"GET http://evil.example:{port}/")
        assert "403" in await ask(proxy, f"CONNECT mixed.example:{port}")
        assert proxy.refused == [
            f"evil.example:{port} has a private address",
            f"mixed.example:{port} has a private address",
        ]
        await proxy.close()
        opened = await GuardProxy.start(Policy(private=(f"evil.example:{port}",)), resolve)
        assert "200" in await ask(opened, f"GET http://evil.example:{port}/")
        await opened.close()
        assert asked == ["/"]


async def test_a_host_that_is_not_allowed_is_refused_before_it_is_resolved():
    async def resolve(host, port):
        raise AssertionError("resolved")

    proxy = await GuardProxy.start(Policy(hosts=("*.example.com",)), resolve)
    assert "403" in await ask(proxy, "CONNECT example.org:443")
    assert "403" in await ask(proxy, "CONNECT example.com.evil.org:443")
    await proxy.close()


async def test_a_tunnel_carries_bytes_both_ways_and_ends_with_either_side():
    async def echo(reader, writer):
        writer.write((await reader.read(100)).upper())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = await GuardProxy.start(Policy(private=(f"127.0.0.1:{port}",)))
    host, own = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(own))
    writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
    assert b"200" in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"hello")
    assert await reader.read() == b"HELLO"
    writer.close()
    await proxy.close()
    server.close()


# ---- live ---------------------------------------------------------------------------------------


@pytest.fixture
async def live():
    from mintact_env_web.live import Live

    made = []

    async def start(url, **params):
        one = Live(**params)
        made.append(one)
        task = Task("t", "look", "web", params={"url": url}).to_json()
        observation, _ = await one.reset(options={"task": task})
        return one, observation

    yield start
    for one in made:
        await one.close()


async def answers(path, writer):
    port = writer.get_extra_info("sockname")[1]
    if path == "/redirect":
        writer.write(page("", "302 Found", f"Location: http://localhost:{port}/private\r\n"))
    elif path == "/loop":
        writer.write(page("", "302 Found", "Location: /loop\r\n"))
    elif path == "/broken":
        writer.write(page("oops", "503 Service Unavailable"))
    elif path == "/endless":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=x.bin\r\n\r\n")
        for _ in range(400):
            writer.write(bytes(1 << 20))
            await writer.drain()
    else:
        writer.write(page("<a id=a href=/redirect>r</a> <a id=e href=/endless>e</a><p>hello"))
    await writer.drain()


@pytest.mark.browser
async def test_a_live_page_is_shown_and_nothing_beyond_the_policy_is_reached(live):
    async with site(answers) as (port, asked), site(answers) as (other, theirs):
        base = f"http://127.0.0.1:{port}"
        one, seen = await live(f"{base}/", private=(f"127.0.0.1:{port}",), with_url=True)
        assert seen["text"] == f"URL: {base}/"
        fetched = f"fetch('http://127.0.0.1:{other}/', {{mode: 'no-cors'}}).then(() => 1, () => 0)"
        assert await one.page.evaluate(fetched) in (0, 1)
        x, y = await middle(one, "#a")
        await one.step(
            {"name": "browser_use", "arguments": {"action": "click", "coordinate": [x, y]}}
        )
        assert "has a private address" in await one.page.inner_text("body")
        assert theirs == []
        assert "/private" not in asked
        assert await one.evaluate() is None


@pytest.mark.browser
async def test_a_download_without_end_is_cut(live):
    async with site(answers) as (port, _):
        one, _ = await live(f"http://127.0.0.1:{port}/", private=(f"127.0.0.1:{port}",))
        x, y = await middle(one, "#e")
        said, call = "", {"action": "click", "coordinate": [x, y]}
        async with asyncio.timeout(60):
            while "Download of" not in said:
                said += (await one.step({"name": "browser_use", "arguments": call}))[0]["text"]
                call = {"action": "wait"}
        assert "Download of 'x.bin' refused: it is over 32 MB." in said


@pytest.mark.browser
@pytest.mark.parametrize(("path", "said"), [
    ("/broken", "status 503"), ("/loop", "ERR_TOO_MANY_REDIRECTS"),
])  # fmt: skip
async def test_a_site_that_is_broken_is_an_environment_failure(live, path, said):
    async with site(answers) as (port, _):
        with pytest.raises(EnvironmentFailure, match=said) as caught:
            await live(f"http://127.0.0.1:{port}{path}", private=(f"127.0.0.1:{port}",))
        assert caught.value.phase == "reset"


@pytest.mark.browser
@pytest.mark.parametrize(
    "url", [None, "file:///etc/passwd", "http://other.example/", "javascript:1"]
)
async def test_a_start_url_beyond_the_policy_is_the_users_mistake(live, url):
    with pytest.raises(ConfigurationError):
        await live(url, hosts=("*.example.com",))


async def middle(one, selector):
    box = await one.page.locator(selector).bounding_box()
    return [round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2)]
