"""A server's side of the stream: who may open one, and what may be said in it."""

import asyncio
import contextlib

import httpx
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import StepRequest, read, read_step
from mintact_platform.errors import ConfigurationError


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/stream", {"Mintact-Protocol": "2"}, 426),
        ("/v1/stream", {"Origin": "http://evil.example"}, 403),
        ("/healthz", {}, 404),
        ("/v1/leases", {}, 404),
    ],
)
async def test_a_wrong_handshake_is_refused_before_the_upgrade(server, path, headers, status):
    url = server.stream.replace("/v1/stream", path)
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, additional_headers=headers, proxy=None):
            pass
    assert caught.value.response.status_code == status
    body = wire.loads(caught.value.response.body, wire.JSON)
    assert wire.ErrorBody.unpack(body).retryable is False
    assert caught.value.response.headers["Mintact-Protocol"] == "1"


async def test_a_plain_request_to_the_stream_is_told_to_upgrade(server):
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:
        assert (await http.get("/v1/stream")).status_code == 426


async def test_a_stream_wants_the_bearer_token(start_server):
    guarded = await start_server(bearer="sesame")
    with pytest.raises(InvalidStatus) as caught:
        async with connect(guarded.stream, proxy=None):
            pass
    assert caught.value.response.status_code == 401
    with pytest.raises(ConfigurationError, match="no bearer token"):
        await guarded.lease(transport="stream", bearer="wrong")
    with pytest.raises(ConfigurationError, match="no bearer token"):
        await guarded.lease(transport="auto")
    await (await guarded.lease(transport="stream", bearer="sesame")).release()
    guarded.child.kill()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("text", 1003),
        (b"\xc1", 1007),
        (msgpack.packb({"n": 1}), 1007),
        (msgpack.packb([[1, "step"]]), 1007),
        (msgpack.packb([["one", "step", "l", "t", {}]]), 1007),
        (msgpack.packb([7]), 1007),
        (msgpack.packb([[n, "step", "l", "t", {}] for n in range(wire.MAX_OPEN_CALLS + 1)]), 1007),
        (bytes(wire.MAX_REQUEST + 1), 1009),
    ],
)
async def test_a_broken_message_closes_the_stream_and_says_why(server, message, code):
    ws = await connect(server.stream, max_size=None, compression=None, proxy=None)
    with contextlib.suppress(ConnectionClosed):
        await ws.send(message)
    with pytest.raises(ConnectionClosed) as caught:
        await ws.recv()
    assert caught.value.rcvd.code == code


@pytest.mark.parametrize(
    ("do", "lease", "body", "status", "complaint"),
    [
        ("jump", "x", {}, 400, "unknown call 'jump'"),
        ("step", 7, {}, 400, "lease and token are text"),
        ("step", "x", {"step": -1, "action": {}}, 400, "step"),
        ("step", "x", {"step": 0, "action": {}, "stp": 1}, 400, "did you mean 'step'?"),
        ("step", "x", {"step": 0, "action": {}}, 410, "no such lease"),
        ("reset", "x", {}, 400, "episode: field required"),
        ("create", "", {"key": "k", "environment": "no/such"}, 400, "no environment named"),
        ("cancel", "", {}, 400, "key: field required"),
        ("heartbeat", "", {"leases": {"x": 1}}, 400, "leases"),
    ],
)
async def test_a_wrong_call_gets_its_own_error_and_the_stream_goes_on(
    server, do, lease, body, status, complaint
):
    async with connect(server.stream, compression=None, proxy=None) as ws:
        await ws.send(msgpack.packb([[5, do, lease, "t", body]]))
        [[number, got, packed]] = msgpack.unpackb(await ws.recv())
        error = wire.ErrorBody.unpack(msgpack.unpackb(packed))
        assert (number, got) == (5, status)
        assert complaint in error.message
        await ws.send(msgpack.packb([[6, "heartbeat", "", "", {"leases": {"unknown": "x"}}]]))
        [[number, got, packed]] = msgpack.unpackb(await ws.recv())
        assert (number, got, msgpack.unpackb(packed)) == (6, 200, {"gone": ["unknown"]})


async def test_a_fragmented_message_is_read_as_one(server):
    async with connect(server.stream, compression=None, proxy=None) as ws:
        whole = msgpack.packb([[6, "heartbeat", "", "", {"leases": {}}]])
        await ws.send([whole[:3], whole[3:10], whole[10:]])
        [[number, status, _]] = msgpack.unpackb(await ws.recv())
        assert (number, status) == (6, 200)


async def test_open_streams_are_counted(start_server):
    server = await start_server()
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:

        async def streams():
            text = (await http.get("/metrics")).text
            return text.partition("\nmintact_environment_stream_connections ")[2].split()[0]

        async with connect(server.stream, proxy=None):
            assert await streams() == "1"
        async with asyncio.timeout(60):
            while await streams() != "0":
                await asyncio.sleep(0.01)
    server.child.kill()


# ---- the step message -------------------------------------------------------------------------

odd_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3)
)
actions = st.dictionaries(st.text(max_size=3) | st.integers(), odd_values, max_size=2)
bodies = st.dictionaries(
    st.sampled_from(["step", "action", "episode", "deadline_s", "other"]),
    odd_values | actions,
    max_size=5,
) | st.fixed_dictionaries(
    {"step": st.integers(-1, 3) | odd_values, "action": actions},
    optional={"episode": st.text(max_size=2) | odd_values, "deadline_s": st.floats() | odd_values},
)


@given(bodies)
def test_the_fast_check_of_a_step_agrees_with_the_model(body):
    def outcome(check):
        try:
            return check()
        except ConfigurationError as error:
            return str(error)

    def by_model():
        request = read(StepRequest, body)
        return (request.step, request.action, request.episode, request.deadline_s)

    assert outcome(lambda: read_step(body)) == outcome(by_model)
