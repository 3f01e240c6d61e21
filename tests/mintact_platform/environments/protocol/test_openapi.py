"""The server against its own OpenAPI document: nothing undocumented, no bug, no leak."""

import asyncio
import secrets

import httpx
import msgpack
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mintact_platform import processes
from mintact_platform.environments.protocol import wire

CALM = '''
import gymnasium


class Calm(gymnasium.Env):
    """Takes any action and any task."""

    metadata = {"mintact": {"instances_per_worker": 64}}

    def reset(self, *, seed=None, options=None):
        return {"text": repr(options)[:1000]}, {}

    def step(self, action):
        return {"text": repr(action)[:1000]}, 1.0, False, False, {}
'''
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SETTINGS = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


@schemathesis.serializer("application/msgpack")
def to_msgpack(context, value):
    try:
        return msgpack.packb(value)
    except (TypeError, ValueError, OverflowError):
        return b"\xc1"


@schemathesis.deserializer("application/msgpack")
def from_msgpack(context, response):
    return wire.unpack(response.content)


@pytest.fixture(scope="module")
def described(start_server, trial_path):
    """A server with one lease-hungry environment that never fails, and its document."""
    (trial_path / "calm_envs.py").write_text(CALM)
    server = asyncio.run(start_server(environments=["calm_envs:Calm"], capacity=64))
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    yield server, schema
    server.child.kill()


@pytest.fixture(scope="module")
def session():
    with requests.Session() as session:
        session.trust_env = False
        yield session


def aim(case):
    """Most creations ask for what exists, so that something happens."""
    body = case.body
    if isinstance(body, dict) and "environment" in body and case.method == "POST":
        body["environment"] = "calm_envs:Calm"
        body["key"] = f"{body.get('key', '')}"[:50] + secrets.token_hex(4)
        for name in ("params", "python"):
            body.pop(name, None)
        body["ttl_s"] = 5.0
    if isinstance(body, dict) and isinstance(body.get("step"), int):
        body["step"] = body["step"] % 2
        body.pop("episode", None)


def judge(case, response):
    case.validate_response(response, checks=CHECKS)
    assert response.status_code < 500 or response.status_code in (503, 504), response.text
    if response.status_code >= 400 and case.path != "/readyz":
        media = response.headers["content-type"][0]
        error = wire.loads(response.content, media)["error"]
        assert error["kind"] != "internal", error


def call(case, session):
    aim(case)
    response = case.call(session=session, timeout=30)
    judge(case, response)
    return response


def test_the_document_is_one(described):
    _, schema = described
    schema.validate()
    assert len(list(schema.get_all_operations())) >= 12


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_route_does_what_its_document_says(described, session, mode):
    server, schema = described
    operations = [result.ok() for result in schema.get_all_operations()]

    @settings(SETTINGS, max_examples=150)
    @given(st.one_of([one.as_strategy(generation_mode=mode) for one in operations]))
    def run(case):
        call(case, session)

    run()
    settled(server)


def test_lives_of_leases_do_what_the_document_says(described, session):
    server, schema = described

    class Lives(schema.as_state_machine()):
        def before_call(self, case):
            aim(case)

        def get_call_kwargs(self, case):
            return {"session": session, "timeout": 30}

        def validate_response(self, response, case, **kwargs):
            judge(case, response)
            if response.status_code == 200:
                done.add(case.operation.definition.raw["operationId"])

    done, wanted = set(), {"create", "reset", "step", "evaluate", "release"}
    # lives are drawn by chance: some rounds have no step that succeeds
    for _ in range(10):
        Lives.run(settings=settings(SETTINGS, max_examples=20, stateful_step_count=12))
        if done >= wanted:
            break
    assert done >= wanted
    settled(server)


def settled(server):
    """No lease outlives its time, and no process."""

    async def wait():
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
            async with asyncio.timeout(60):
                while (await http.get("/v1/environments")).json()["leases"]:
                    await asyncio.sleep(0.1)
                while processes.marked(server.mark) != [server.child.process.pid]:
                    await asyncio.sleep(0.1)

    asyncio.run(wait())
