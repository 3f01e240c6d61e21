"""Requests that mean harm: refused with the error body, and nobody else notices."""

import asyncio
import json
import re
import secrets
from pathlib import Path

import httpx
import msgpack
import pytest

from mintact_platform import processes
from mintact_platform.environments.protocol import wire

LIGHT = "trial_envs:Shared"
COUNT = {"name": "count", "arguments": {}}
NASTY = [
    "../../../../etc/passwd",
    "..",
    "a/../../b",
    "/etc/passwd",
    "nul\0byte",
    "line\r\nSet-Cookie: x=1",
    "\u202e\u0000\uffff\U0001f4a9",
    "%2e%2e%2f",
    "$(touch /tmp/pwned)",
    "é" * 100,
]
BOMBS = {
    "nothing": b"",
    "noise": b"\xc1\xc1\xc1",
    "half a map": b"\x82\xa3key",
    "an array": b"\x93\x01\x02\x03",
    "deep": b"\x91" * 50_000 + b"\x01",
    "many declared": b"\xdd\xff\xff\xff\xff",
    "much declared": b"\xc6\xff\xff\xff\xff",
    "map of many": b"\xdf\xff\xff\xff\xff\x01\x02",
    "extension": b"\x81\xa3key\xd4\x05\x00",
    "timestamp as key": b"\x81\xd6\xff\x00\x00\x00\x00\xa1x",
    "timestamp": b"\x81\xa3key\xd6\xff\x00\x00\x00\x00",
    "out of range timestamp": b"\x81\xa3key\xc7\x0c\xff" + b"\xff" * 12,
    "number as key": b"\x81\x01\x02",
    "bytes as key": b"\x81\xc4\x01a\x02",
    "array as key": b"\x81\x90\x02",
    "bad utf-8": b"\x81\xa3key\xa2\xff\xfe",
    "two messages": b"\x80\x80",
}
WORDS = {
    "nothing closed": b"{",
    "not utf-8": b'{"key": "\xff"}',
    "utf-16": '{"key": "x"}'.encode("utf-16"),
    "deep": b'{"params": ' + b"[" * 200_000,
    "digits": b'{"ttl_s": ' + b"9" * 5000 + b"}",
    "exponent": b'{"ttl_s": 1e999}',
    "nan": b'{"key": "k", "environment": "x", "ttl_s": NaN}',
    "surrogate": b'{"key": "\\ud800", "environment": "\\udfff"}',
    "twice": b'{"key": "a", "key": "b"}',
    "null": b"null",
    "text": b'"text"',
    "nul": b"\0",
}


@pytest.fixture(scope="module")
def hostile(start_server):
    """A server that only these tests use."""
    server = asyncio.run(start_server())
    # one lease keeps the worker that all others share
    keeper = {"key": "keeper", "environment": LIGHT, "ttl_s": 3600}
    httpx.post(f"{server.url}/v1/leases", json=keeper, timeout=60, trust_env=False)
    yield server
    server.child.kill()


@pytest.fixture
async def http(hostile):
    async with httpx.AsyncClient(base_url=hostile.url, timeout=60, trust_env=False) as client:
        yield client
        # whatever was done to it, it still serves
        assert (await client.get("/healthz")).status_code == 200


@pytest.fixture
async def leased(hostile, task):
    lease = await hostile.lease(LIGHT, transport="http")
    await lease.reset(episode="e", task=task, seed=0, deadline=60)
    yield lease
    await lease.release()


def refusal(reply, *statuses):
    """The error of a reply that must be a refusal in our own words."""
    assert reply.status_code in statuses, (reply.status_code, reply.text[:300])
    assert reply.headers["mintact-protocol"] == "1"
    media = reply.headers["content-type"]
    error = wire.loads(reply.content, media)["error"]
    assert {"kind", "phase", "message", "retryable", "log_tail"} <= error.keys()
    assert error["kind"] != "internal", error
    assert "\n" not in error["message"]
    return error


def body(**changes):
    return {"key": secrets.token_hex(8), "environment": LIGHT, **changes}


# ---- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
async def test_no_path_is_an_environment(http, name):
    refusal(await http.post("/v1/leases", json=body(environment=name)), 400)


@pytest.mark.parametrize("field", ["environment", "key", "python", "image_format"])
async def test_a_very_long_word_is_refused(http, field):
    error = refusal(await http.post("/v1/leases", json=body(**{field: "x" * 1_000_000})), 400)
    assert len(error["message"]) < 2000


@pytest.mark.parametrize("name", NASTY)
async def test_a_client_names_no_file(http, hostile, name, task):
    """A key, an episode, a task and a parameter may say anything; directories are numbered."""
    made = await http.post("/v1/leases", json=body(key=name, params={"journal": ""}))
    assert made.status_code == 200
    path, headers = (
        f"/v1/leases/{made.json()['lease']}",
        {"Mintact-Lease-Token": made.json()["token"]},
    )
    values = {"id": name, "goal": name, "domain": name, "params": {name: name}}
    start = {"episode": name, "task": values, "seed": 1}
    seen = await http.post(f"{path}/reset", json=start, headers=headers)
    assert seen.status_code == 200, seen.text
    assert re.fullmatch(r"0 in /\S*/mintact-\w+/w\d+/w\d+\.\d+", seen.json()["text"])
    gone = await http.delete("/v1/leases", params={"key": name})
    assert gone.status_code == 200
    late = await http.post(f"{path}/step", json={"step": 0, "action": COUNT}, headers=headers)
    assert refusal(late, 410)["kind"] == "expired"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/leases/..%2f..%2fhealthz/step",
        "/v1/leases/%2e%2e/step",
        "/v1/leases/%00/step",
        "/v1/leases/" + "x" * 20_000 + "/step",
        "/v1/leases/%F0%9F%92%A9/step",
        "/v1/leases/%ff%fe/step",
        "/v1/leases/../step",
        "/v1/leases//step",
        "/v1/nothing",
        "/",
        "//etc/passwd",
        "/docs/../../etc/passwd",
    ],
)
async def test_a_path_to_nowhere_is_refused(hostile, path):
    request = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    status, _, reply = await raw(hostile, request + "Content-Length: 40\r\n\r\n" + "{}".ljust(40))
    assert status in (400, 404, 405, 410)
    assert json.loads(reply)["error"]["kind"]


async def test_a_wrong_method_and_a_missing_argument_are_refused_in_our_words(http):
    refusal(await http.get("/v1/leases/x/step"), 405)
    refusal(await http.put("/v1/leases", json={}), 405)
    refusal(await http.delete("/v1/leases"), 400)
    refusal(await http.delete("/v1/leases", params={"key": "x" * 300}), 400)
    refusal(await http.post("/nowhere", json={}), 404)


# ---- bodies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["/v1/leases", "/v1/heartbeat", "/v1/leases/x/reset"])
@pytest.mark.parametrize("bomb", BOMBS)
async def test_bad_msgpack_is_refused(http, route, bomb):
    headers = {"content-type": wire.MSGPACK}
    error = refusal(await http.post(route, content=BOMBS[bomb], headers=headers), 400)
    assert len(error["message"]) < 500


@pytest.mark.parametrize("route", ["/v1/leases", "/v1/heartbeat", "/v1/leases/x/step"])
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("accept", [wire.JSON, wire.MSGPACK])
async def test_bad_json_is_refused(http, route, word, accept):
    headers = {"content-type": wire.JSON, "accept": accept}
    error = refusal(await http.post(route, content=WORDS[word], headers=headers), 400, 410)
    assert len(error["message"]) < 500


async def test_values_that_json_does_not_know_do_no_harm(http, leased):
    headers = {"content-type": wire.MSGPACK, "Mintact-Lease-Token": leased.token}
    odd = [msgpack.Timestamp(0), msgpack.ExtType(5, b"x"), {1: 2}, {b"x": 1}, b"bytes"]
    for number, value in enumerate(odd):
        action = {"name": "count", "arguments": {"odd": value}}
        content = msgpack.packb({"step": number, "action": action})
        reply = await http.post(f"/v1/leases/{leased.id}/step", content=content, headers=headers)
        assert reply.status_code == 200
    headers = {"content-type": wire.JSON, "Mintact-Lease-Token": leased.token}
    for value in (float("nan"), float("inf"), 2**64):
        word = json.dumps({"step": len(odd), "action": {"name": "count", "odd": value}})
        reply = await http.post(f"/v1/leases/{leased.id}/step", content=word, headers=headers)
        refusal(reply, 400)


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "a",
        "",
    ],
)
async def test_another_content_type_is_refused(http, media):
    content = json.dumps(body()).encode()
    reply = await http.post("/v1/leases", content=content, headers={"content-type": media})
    assert refusal(reply, 415)["kind"] == "configuration"


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON"])
async def test_a_content_type_may_have_parameters(http, media):
    content = json.dumps(body()).encode()
    reply = await http.post("/v1/leases", content=content, headers={"content-type": media})
    made = reply.json()
    assert reply.status_code == 200
    token = {"Mintact-Lease-Token": made["token"]}
    assert (await http.delete(f"/v1/leases/{made['lease']}", headers=token)).status_code == 200


async def test_a_web_page_may_not_call(http):
    for origin in ("https://evil.example", "null", "http://127.0.0.1"):
        reply = await http.post("/v1/leases", json=body(), headers={"Origin": origin})
        assert refusal(reply, 403)["kind"] == "unauthorised"


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate"])
async def test_a_compressed_body_is_not_opened(http, encoding):
    content = b"\x1f\x8b" + b"\0" * 100
    headers = {"content-type": wire.JSON, "content-encoding": encoding}
    refusal(await http.post("/v1/leases", content=content, headers=headers), 400, 415)


# ---- headers --------------------------------------------------------------------------------


async def raw(server, request, *, until_eof=False) -> tuple[int, str, str]:
    """Status, head and body of the reply to raw bytes."""
    url = httpx.URL(server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        writer.write(request.encode("latin-1") if isinstance(request, str) else request)
        async with asyncio.timeout(30):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"content-length: (\d+)", head, re.I)
            reply = await reader.readexactly(int(length[1])) if length else await reader.read()
            if until_eof:
                assert await reader.read() == b""
        return int(head.split()[1]), head, reply.decode("utf-8", "replace")
    finally:
        writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 1e3\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Mintact Protocol: 1\r\n",
        "X: a\x00b\r\n",
        "Host: a\r\nHost: b\r\n",
    ],
)
async def test_a_request_that_means_two_things_is_refused(hostile, headers):
    smuggled = "GET /v1/environments HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        f"POST /v1/heartbeat HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}\r\n"
    )
    # what follows the refusal is the end of the connection: nothing else was read as a request
    ends = "9999" not in headers
    status, head, _ = await raw(hostile, f"{head}0\r\n\r\n{smuggled}", until_eof=ends)
    assert status in (400, 411, 413, 501)


async def test_headers_without_end_are_cut_off(hostile):
    url = httpx.URL(hostile.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, EOFError)):  # noqa: PT012
        async with asyncio.timeout(30):
            for number in range(10_000):
                writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1000))
                await writer.drain()
            head = await reader.read(12)
            assert b" 4" in head
            raise EOFError
    writer.close()


async def test_a_bearer_token_is_wanted_whole(start_server, monkeypatch):
    monkeypatch.setenv("TRIAL_TOKEN", "sesame")
    guarded = await start_server(bearer_env="TRIAL_TOKEN")
    async with httpx.AsyncClient(base_url=guarded.url, timeout=60, trust_env=False) as http:
        for given in ("", "Bearer", "Bearer sesam", "Bearer sesamee", "bearer sesame",
                      "Basic c2VzYW1l", "Bearer sesame\xe9"):  # fmt: skip
            headers = {"authorization": given.encode("latin-1")} if given else {}
            for method, path in (("GET", "/metrics"), ("POST", "/v1/leases"), ("GET", "/nowhere"),
                                 ("GET", "/openapi.json"), ("GET", "/v1/stream")):  # fmt: skip
                reply = await http.request(method, path, headers=headers)
                assert refusal(reply, 401)["kind"] == "unauthorised"
    guarded.child.kill()


# ---- slow and many --------------------------------------------------------------------------


async def test_hundreds_of_slow_clients_delay_nobody(hostile, leased):
    """Each sends a little of its request, or reads nothing of its reply."""
    url = httpx.URL(hostile.url)
    beginnings = [
        b"POST /v1/le",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
        b"Content-Type: application/json\r\n\r\n{",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upg",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    ]
    pid = hostile.child.process.pid
    before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    slow = [await asyncio.open_connection(url.host, url.port) for _ in range(200)]
    for number, (_, writer) in enumerate(slow):
        writer.write(beginnings[number % len(beginnings)])
    for number in range(50):
        await leased.step(step=number, action=COUNT, deadline=60)
    for _, writer in slow:
        writer.transport.abort()
    async with asyncio.timeout(60):
        while len(list(Path(f"/proc/{pid}/fd").iterdir())) > before:
            await asyncio.sleep(0.05)


async def test_a_flood_of_refused_creations_leaves_nothing(hostile, http):
    bodies = [body(environment=f"no/such{n}") for n in range(150)]
    bodies += [body(params={"size": "big"}) for _ in range(50)]
    gate = asyncio.Semaphore(20)

    async def one(values):
        async with gate:
            return await http.post("/v1/leases", json=values)

    for reply in await asyncio.gather(*map(one, bodies)):
        refusal(reply, 400, 503)
    assert (await http.delete("/v1/leases", params={"key": "keeper"})).status_code == 200
    assert (await http.get("/v1/environments")).json()["leases"] == 0
    pid = hostile.child.process.pid
    async with asyncio.timeout(60):
        while processes.marked(hostile.mark) != [pid]:
            await asyncio.sleep(0.05)
