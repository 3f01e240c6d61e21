"""Streams that mean harm: each mistake is refused, and no other client notices."""

import asyncio
import contextlib
import os
import secrets

import httpx
import msgpack
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mintact_platform.environments.protocol import wire

LIGHT = "trial_envs:Shared"
COUNT = {"name": "count", "arguments": {}}
NOT_A_BATCH = {
    "text": "hello",
    "noise": b"\xc1",
    "a map": msgpack.packb({"n": 1}),
    "a number": msgpack.packb(7),
    "deep": b"\x91" * 50_000,
    "many declared": b"\xdd\xff\xff\xff\xff",
    "calls that are none": msgpack.packb([1, 2, 3]),
    "a short call": msgpack.packb([[1, "step", "l", "t"]]),
    "a long call": msgpack.packb([[1, "step", "l", "t", {}, 0]]),
    "a text as number": msgpack.packb([["1", "step", "l", "t", {}]]),
    "too many": msgpack.packb([[n, "x", "", "", {}] for n in range(wire.MAX_OPEN_CALLS + 1)]),
    "too large": b"\xc6"
    + (wire.MAX_REQUEST + 1).to_bytes(4, "big")
    + b"x" * (wire.MAX_REQUEST + 1),
}
WRONG_CALLS = {
    "unknown": ["dance", "", "", {}],
    "no lease": ["step", "", "", {"step": 0, "action": COUNT}],
    "lease is a number": ["step", 7, "t", {}],
    "token is bytes": ["step", "l", b"t", {}],
    "body is a list": ["step", "l", "t", []],
    "body has numbers as keys": ["step", "l", "t", {1: 2}],
    "step is a boolean": ["step", "l", "t", {"step": True, "action": COUNT}],
    "step is large": ["step", "l", "t", {"step": 2**63, "action": COUNT}],
    "step is negative": ["step", "l", "t", {"step": -1, "action": COUNT}],
    "deadline is endless": ["evaluate", "l", "t", {"deadline_s": float("inf")}],
    "deadline is nothing": ["evaluate", "l", "t", {"deadline_s": float("nan")}],
    "deadline is a time": ["evaluate", "l", "t", {"deadline_s": msgpack.Timestamp(1)}],
    "names are long": ["reset", "l" * 100_000, "t" * 100_000, {"episode": "e" * 100_000}],
    "do is long": ["x" * 100_000, "", "", {}],
    "nothing to heartbeat": ["heartbeat", "", "", {"leases": [1]}],
    "no key": ["cancel", "", "", {}],
    "no environment": ["create", "", "", {"key": "k"}],
}


@pytest.fixture(scope="module")
def hostile(start_server):
    """A server that only these tests use."""
    server = asyncio.run(start_server())
    yield server
    server.child.kill()


@pytest.fixture
async def client(hostile, task):
    """A well-meaning client; at the end its lease still works."""
    lease = await hostile.lease(LIGHT, transport="stream")
    await lease.reset(episode="e", task=task, seed=0, deadline=60)
    yield lease
    assert (await lease.step(step=0, action=COUNT, deadline=60)).text.startswith("1 in")
    await lease.release()


def stream_to(server, **headers):
    url = server.url.replace("http", "ws") + "/v1/stream"
    return connect(
        url,
        additional_headers=headers,
        max_size=None,
        compression=None,
        proxy=None,
        ping_interval=None,
    )


async def replies_to(stream, *calls) -> dict:
    """Status and body by number."""
    await stream.send(msgpack.packb([[n, *call] for n, call in enumerate(calls)]))
    found: dict = {}
    async with asyncio.timeout(60):
        while len(found) < len(calls):
            for number, status, body in wire.unpack(await stream.recv()):
                found[number] = status, wire.unpack(body)
    return found


@pytest.mark.parametrize("message", NOT_A_BATCH)
async def test_what_is_no_batch_closes_the_stream(hostile, client, message):
    stream = await stream_to(hostile)
    try:
        with contextlib.suppress(ConnectionClosed):
            await stream.send(NOT_A_BATCH[message])
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionClosed) as caught:
                await stream.recv()
    finally:
        # not `stream.close()`: it aborts a transport that is closed, which asyncio before 3.12
        # answers with an AttributeError when bytes were left unsent
        stream.transport.close()
    assert caught.value.rcvd is None or caught.value.rcvd.code in (1002, 1003, 1007, 1009)


async def test_a_wrong_call_is_answered_alone(hostile, client):
    async with stream_to(hostile) as stream:
        found = await replies_to(stream, *WRONG_CALLS.values())
        for name, (status, body) in zip(WRONG_CALLS, found.values(), strict=True):
            assert status in (400, 410), (name, status, body)
            error = body["error"]
            assert error["kind"] in ("configuration", "expired"), (name, error)
            assert len(error["message"]) <= wire.MAX_ERROR
            assert "\n" not in error["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Mintact-Protocol": "2"}, 426),
    ],
)
async def test_who_may_not_come_in_gets_no_stream(hostile, headers, status):
    with pytest.raises(InvalidStatus) as caught:
        async with stream_to(hostile, **headers):
            pass
    reply = caught.value.response
    assert reply.status_code == status
    assert wire.loads(reply.body, wire.JSON)["error"]["kind"]


async def test_the_same_step_asked_many_times_at_once_runs_once(hostile, tmp_path):
    journal = tmp_path / "journal"
    async with stream_to(hostile) as stream, stream_to(hostile) as other:
        params = {"journal": str(journal)}
        key = secrets.token_hex(8)
        create = ["create", "", "", {"key": key, "environment": LIGHT, "params": params}]
        found = await replies_to(stream, *[create] * 5)
        (made,) = {(body["lease"], body["token"]) for _, body in found.values()}
        reset = ["reset", *made, {"episode": "e"}]
        assert {status for status, _ in (await replies_to(stream, *[reset] * 5)).values()} == {200}
        step = ["step", *made, {"step": 0, "action": COUNT}]
        asked = await asyncio.gather(*(replies_to(s, *[step] * 5) for s in (stream, other)))
        bodies = [body for found in asked for status, body in found.values() if status == 200]
        assert len(bodies) == 10
        assert all(body == bodies[0] for body in bodies)
        await replies_to(stream, ["release", *made, {}])
    assert journal.read_text().split("\n").count("step count") == 1


async def test_a_client_that_never_reads_is_not_read_from(hostile, client):
    """Its replies fill no memory: the server stops reading before."""
    process = psutil.Process(hostile.child.process.pid)
    before = process.memory_info().rss
    async with stream_to(hostile) as stream:
        wish = {"key": "greedy", "environment": LIGHT, "params": {"size": 600}}
        made = (await replies_to(stream, ["create", "", "", wish]))[0][1]
        lease = made["lease"], made["token"]
        await replies_to(stream, ["reset", *lease, {"episode": "e"}])
        stream.transport.pause_reading()
        resets = msgpack.packb([[n, "reset", *lease, {"episode": "e"}] for n in range(200)])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                for _ in range(2000):
                    await stream.send(resets)
        assert process.memory_info().rss - before < 100 << 20
        stream.transport.abort()
    async with httpx.AsyncClient(base_url=hostile.url, trust_env=False, timeout=60) as http:
        assert (await http.delete("/v1/leases", params={"key": "greedy"})).status_code == 200


async def test_hundreds_of_silent_streams_delay_nobody(hostile, client, task):
    pid = hostile.child.process.pid
    before = len(os.listdir(f"/proc/{pid}/fd"))
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(150):
            await stack.enter_async_context(stream_to(hostile))
        await client.reset(episode="e2", task=task, seed=0, deadline=60)
        for step in range(20):
            await client.step(step=step, action=COUNT, deadline=60)
        await client.reset(episode="e3", task=task, seed=0, deadline=60)
    async with asyncio.timeout(60):
        while len(os.listdir(f"/proc/{pid}/fd")) > before:
            await asyncio.sleep(0.05)
