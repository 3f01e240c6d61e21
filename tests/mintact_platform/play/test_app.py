"""The page's calls: for the page, and for nobody else."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from mintact_platform.play.app import PAGE


@pytest.fixture
async def address(open_page):
    return await open_page("micro/mobile")


@pytest.fixture
async def client():
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        yield client


def root(address):
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


async def state(client, address, phase):
    after = -1
    async with asyncio.timeout(60):
        while True:
            shown = (await client.get(f"{address}state", params={"after": after})).json()
            if shown["phase"] == phase:
                return shown
            after = shown["revision"]


async def test_only_the_address_with_its_token_answers(client, address):
    token = urlsplit(address).path.strip("/")
    assert len(token) >= 32
    for path in ("/", "/state", "/favicon.ico", f"/{token[:-1]}/state", f"/{token}", "/x/state"):
        refused = await client.get(root(address) + path)
        assert refused.status_code == 403, path
        assert refused.json()["error"]["kind"] == "forbidden"
        assert token not in refused.text
    assert (await client.get(f"{address}state")).status_code == 200
    for verb in ("act", "begin", "save", "give-up"):
        assert (await client.post(f"{root(address)}/{verb}", json={})).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::2]:80", ""]
)
async def test_a_foreign_name_that_points_here_is_refused(client, address, host):
    answer = await client.get(f"{address}state", headers={"host": host})
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:80", "[::1]:9000"])
async def test_a_forwarded_port_of_loopback_is_fine(client, address, host):
    answer = await client.get(f"{address}state", headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
async def test_another_page_can_not_drive_it_even_with_the_token(client, address, headers):
    await state(client, address, "waiting")
    body = b'{"response": "no call"}'
    headers = {"content-type": "application/json", **headers}
    refused = await client.post(f"{address}act", content=body, headers=headers)
    assert refused.status_code == 403
    assert (await client.get(f"{address}state")).json()["turns"] == []


async def test_a_link_on_another_page_may_open_the_page_but_not_read_it(client, address):
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await client.get(address, headers=link)).status_code == 200
    fetch = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    assert (await client.get(f"{address}state", headers=fetch)).status_code == 403
    post = {**link, "content-type": "application/json"}
    assert (await client.post(f"{address}give-up", headers=post)).status_code == 403


async def test_no_answer_may_be_framed_kept_or_read_elsewhere(client, address):
    for file in ("", *PAGE[1:], "state"):
        answer = await client.get(address + file)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


async def test_the_page_needs_nothing_from_elsewhere(client, address):
    for file in ("", *PAGE[1:]):
        text = (await client.get(address + file)).text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text


async def test_the_screenshot_is_sent_byte_for_byte(client, address):
    shown = await state(client, address, "waiting")
    digest = shown["observation"]["screenshot"]
    image = await client.get(f"{address}images/{digest}")
    assert image.headers["content-type"] == "image/png"
    assert image.content.startswith(b"\x89PNG")
    for other in ("0" * 32, "..%2f..%2fetc%2fpasswd", "x"):
        assert (await client.get(f"{address}images/{other}")).status_code == 404


async def test_what_cannot_be_done_now_is_409_and_nonsense_changes_nothing(client, address):
    await state(client, address, "waiting")
    assert (await client.post(f"{address}save", json={})).status_code == 409
    headers = {"content-type": "application/json"}
    for content in (b"{", b"\xff", b"[" * 100_000, b"x" * (1 << 21)):
        answer = await client.post(f"{address}act", content=content, headers=headers)
        assert answer.status_code == 409
        assert answer.json()["error"]["message"]
    assert (await client.get(f"{address}docs")).status_code == 404
    assert (await client.get(f"{address}state")).json()["turns"] == []


async def test_a_call_is_composed_read_and_acted_on(client, address):
    await state(client, address, "waiting")
    call = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [127, 0]}}
    made = (await client.post(f"{address}compose", json={"thought": "up", **call})).json()
    assert '"coordinate": [991, 0]' in made["response"]
    found = (await client.post(f"{address}read", json=made)).json()
    assert found == {"calls": ["click (991, 0)"]}
    assert "no tool call" in (await client.post(f"{address}read", json={})).json()["error"]
    assert (await client.post(f"{address}act", json={"thought": "up", **call})).status_code == 200
    shown = await state(client, address, "waiting")
    assert shown["turns"][0]["response"] == made["response"]
    assert shown["turns"][0]["does"] == ["click (126, 0)"]


async def test_half_a_surrogate_pair_is_no_crash(client, address):
    await state(client, address, "waiting")
    headers = {"content-type": "application/json"}
    content = b'{"response": "\\ud83d half"}'
    assert (await client.post(f"{address}act", content=content, headers=headers)).is_success
    shown = await state(client, address, "waiting")
    assert "half" in shown["turns"][0]["response"]
