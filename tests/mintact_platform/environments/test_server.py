import asyncio
import base64
import json
import os
import subprocess
import sys

import httpx
import pytest

from mintact_platform.environments.protocol import wire
from mintact_platform.errors import MintactError


@pytest.fixture
async def http(server):
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
async def leased(http):
    """A lease made with plain JSON, as with curl."""
    body = {"key": f"json-{os.urandom(6).hex()}", "environment": "trial_envs:Shared"}
    created = (await http.post("/v1/leases", json=body)).json()
    headers = {"Mintact-Lease-Token": created["token"]}
    yield {"path": f"/v1/leases/{created['lease']}", "headers": headers, **created}
    assert (await http.delete(f"/v1/leases/{created['lease']}", headers=headers)).status_code == 200


async def test_curl_can_play_an_episode_in_json(http, leased):
    path, headers = leased["path"], leased["headers"]
    assert (leased["domain"], leased["action_space"]) == ("web", "browser_use")
    first = await http.post(f"{path}/reset", json={"episode": "e"}, headers=headers)
    assert first.headers["mintact-protocol"] == "1"
    image = first.json()["images"][0]
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    step = {"step": 0, "action": {"name": "count", "arguments": {}}}
    reply = await http.post(f"{path}/step", json=step, headers=headers)
    assert (reply.json()["reward"], reply.json()["terminated"]) == (0.5, False)
    check = await http.post(f"{path}/evaluate", json={}, headers=headers)
    assert check.json() == {"check": {"success": False, "score": 0.5, "details": {"count": 1}}}


async def test_a_reply_comes_in_the_encoding_asked_for(http, leased):
    headers = {**leased["headers"], "accept": wire.MSGPACK}
    reply = await http.post(f"{leased['path']}/reset", json={"episode": "e"}, headers=headers)
    assert wire.Observation.unpack(wire.unpack(reply.content)).text.startswith("0 in ")
    wrong = await http.post(f"{leased['path']}/step", json={}, headers=headers)
    assert wire.ErrorBody.unpack(wire.unpack(wrong.content)).kind == "configuration"


async def test_another_protocol_is_refused_with_426(http):
    reply = await http.get("/v1/environments", headers={"Mintact-Protocol": "2"})
    assert reply.status_code == 426
    assert reply.json()["error"]["message"] == "this server speaks protocol 1, not 2"


@pytest.mark.parametrize("lie", [True, False])
async def test_a_body_over_the_cap_is_refused_even_without_a_length(http, lie):
    async def chunks():
        for _ in range(wire.MAX_REQUEST // 1_000_000 + 2):
            yield b" " * 1_000_000

    content = chunks() if lie else b" " * (wire.MAX_REQUEST + 1)
    reply = await http.post("/v1/heartbeat", content=content)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"environment": "trial_envs:Counter"}, "request: key: field required"),
        ({"environment": "trial_envs:Counter", "kee": 1, "key": "x"}, "did you mean 'key'?"),
        ({"environment": "trial_envs:Nothing", "key": "x"}, "cannot import 'trial_envs:Nothing'"),
        ({"environment": "no/such", "key": "x"}, "no environment named 'no/such'"),
        (
            {"environment": "trial_envs:Counter", "key": "x", "params": {"sise": 3}},
            "environment 'trial_envs:Counter': unknown parameter 'sise'; did you mean 'size'?",
        ),
        (
            {"environment": "trial_envs:Counter", "key": "x", "params": {"size": "big"}},
            "parameter 'size'",
        ),
        (
            {"environment": "trial_envs:Needy", "key": "x"},
            "needs the program 'no-such-browser'; install the package 'chromium-of-dreams'",
        ),
        (
            {"environment": "trial_envs:Counter", "key": "x", "python": "/bin/sh"},
            "interpreter '/bin/sh' is not allowed here",
        ),
        ({"environment": "trial_envs:Counter", "key": "x", "ttl_s": -1}, "ttl_s"),
    ],
)
async def test_a_wrong_creation_is_a_400_that_says_what_to_do(http, body, complaint):
    reply = await http.post("/v1/leases", json=body)
    assert reply.status_code == 400
    assert complaint in reply.json()["error"]["message"]
    assert reply.json()["error"]["retryable"] is False


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000])
async def test_a_broken_body_is_a_400(http, content):
    assert (await http.post("/v1/leases", content=content)).status_code == 400


async def test_the_same_key_creates_one_lease_even_at_once(http):
    body = {"key": f"twice-{os.urandom(6).hex()}", "environment": "trial_envs:Counter"}
    replies = await asyncio.gather(*(http.post("/v1/leases", json=body) for _ in range(4)))
    created = [{**reply.json(), "expires_at": 0} for reply in replies]
    assert all(one == created[0] for one in created)
    other = await http.post("/v1/leases", json={**body, "params": {"size": 9}})
    assert (other.status_code, other.json()["error"]["kind"]) == (409, "conflict")
    assert (await http.delete("/v1/leases", params={"key": body["key"]})).status_code == 200
    late = await http.post("/v1/leases", json=body)
    assert (late.status_code, late.json()["error"]["kind"]) == (410, "cancelled")


async def test_a_foreign_token_gets_410_and_changes_nothing(http, leased):
    foreign = {"Mintact-Lease-Token": "guess"}
    for method, path in (("POST", "/reset"), ("DELETE", "")):
        reply = await http.request(
            method, leased["path"] + path, json={"episode": "e"}, headers=foreign
        )
        assert (reply.status_code, reply.json()["error"]["kind"]) == (410, "fenced")
    fine = await http.post(
        f"{leased['path']}/reset", json={"episode": "e"}, headers=leased["headers"]
    )
    assert fine.status_code == 200


async def test_a_heartbeat_names_the_leases_that_are_gone(http, leased):
    leases = {leased["lease"]: leased["token"], "unknown": "x"}
    reply = await http.post("/v1/heartbeat", json={"leases": leases})
    assert reply.json() == {"gone": ["unknown"]}


async def test_status_routes_say_what_is_served_and_how_full(http, leased):
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"ready": True}
    listed = (await http.get("/v1/environments")).json()
    assert listed["leases"] >= 1
    text = (await http.get("/metrics")).text
    assert 'mintact_environment_calls_total{phase="create",status="200"}' in text
    assert "mintact_environment_workers " in text


async def test_a_full_server_says_503_and_when_to_come_back(start_server):
    small = await start_server(capacity=1)
    lease = await small.lease()
    async with httpx.AsyncClient(base_url=small.url, timeout=60, trust_env=False) as http:
        body = {"key": "second", "environment": "trial_envs:Counter"}
        reply = await http.post("/v1/leases", json=body)
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert (await http.get("/readyz")).status_code == 503
        await lease.release()
        assert (await http.post("/v1/leases", json=body)).status_code == 200
    small.child.kill()


async def test_a_server_may_serve_named_environments_for_a_token(start_server, monkeypatch):
    monkeypatch.setenv("TRIAL_TOKEN", "sesame")
    guarded = await start_server(environments=["trial_envs:Counter"], bearer_env="TRIAL_TOKEN")
    async with httpx.AsyncClient(base_url=guarded.url, timeout=60, trust_env=False) as http:
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/v1/environments")).status_code == 401
        http.headers["authorization"] = "Bearer sesame"
        served = (await http.get("/v1/environments")).json()["environments"]
        assert list(served) == ["trial_envs:Counter"]
        body = {"key": "k", "environment": "trial_envs:Shared"}
        refused = await http.post("/v1/leases", json=body)
        assert "is not served here" in refused.json()["error"]["message"]
    await (await guarded.lease("trial_envs:Counter", bearer="sesame")).release()
    guarded.child.kill()


async def test_a_bind_outside_loopback_needs_a_bearer_token(start_server, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(MintactError, match=r"binding to '0\.0\.0\.0' needs a bearer token"):
        await start_server(host="0.0.0.0")
    assert not list(tmp_path.iterdir())


def test_a_worker_imports_nothing_heavy():
    script = (
        "import sys, mintact_platform.environments.worker.main\n"
        "import mintact_platform.environments.worker.encoding\n"
        "from mintact_platform.registry.names import Registry; Registry.discover().tables\n"
        "heavy = {'fastapi', 'httpx', 'pydantic', 'torch', 'uvicorn', 'rich', 'tokenizers',"
        " 'transformers', 'playwright', 'PIL'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.replace("'", '"')) == []
