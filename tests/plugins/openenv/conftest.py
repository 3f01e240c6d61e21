"""A small server that speaks the recorded messages of OpenEnv, and lies on demand."""

import asyncio
import base64
import contextlib
import http
import importlib.util
import io
import itertools
import json
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mintact_plugin_openenv.environment import OpenEnv
from PIL import Image
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from mintact_platform import processes
from mintact_platform.environments.client.lease import Lease

ROOT = Path(__file__).parents[3]

ACTION = {
    "additionalProperties": False,
    "title": "CountAction",
    "description": "Add a number.",
    "type": "object",
    "properties": {
        "metadata": {"additionalProperties": True, "title": "Metadata", "type": "object"},
        "amount": {"title": "Amount", "type": "integer", "minimum": 1, "maximum": 3},
        "mode": {"default": "plain", "title": "Mode", "type": "string"},
    },
    "required": ["amount"],
}
CALL = {
    "title": "CallToolAction",
    "type": "object",
    "properties": {
        "metadata": {"type": "object"},
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
    },
    "required": ["tool_name"],
}
TOOLS = [
    {
        "name": "add",
        "description": "Add a number.",
        "inputSchema": {
            "type": "object",
            "title": "addArguments",
            "properties": {"amount": {"title": "Amount", "type": "integer"}},
            "required": ["amount"],
        },
    },
    {"name": "look", "description": None, "input_schema": {"type": "object"}},
]


def png(shade=90, size=12):
    buffer = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), shade, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def observation(data, reward=0.0, done=False):
    body = {"observation": data, "reward": reward, "done": done}
    return {"type": "observation", "data": body}


def error(message, code, **more):
    return {"type": "error", "data": {"message": message, "code": code, **more}}


INVALID = error(
    "Invalid message",
    "VALIDATION_ERROR",
    errors=[{"type": "less_than_equal", "loc": ["amount"], "msg": "Input should be at most 3"}],
)

LIES = {
    "not json": "<html>502</html>",
    "no object": "[1, 2]",
    "no data": '{"type": "observation"}',
    "other kind": '{"type": "state", "data": {}}',
    "no observation": '{"type": "observation", "data": {"reward": 1.0, "done": true}}',
    "text reward": json.dumps(observation({"text": "x"}, reward="high")),
    "binary": b"\x00\xff\xfe",
    "too deep": "[" * 100_000,
}
"""What a server may say in place of an observation, by the action's `mode`."""


class Fake:
    """Counts to three, one count a session; how each step goes wrong is the action's `mode`."""

    def __init__(self):
        self.schema, self.sessions, self.capacity = ACTION, 0, 4
        self.schema_status, self.says_at_start = http.HTTPStatus.OK, None
        self.resets, self.actions, self.closed, self.refused = [], [], 0, 0
        self.url, self._server = "", None

    async def start(self):
        self._server = await serve(
            self.session, "127.0.0.1", 0, process_request=self.request, max_size=None
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def stop(self):
        self._server.close()
        await self._server.wait_closed()

    def offer_tools(self):
        self.schema = CALL

    def request(self, connection, request):
        if request.path == "/ws":
            return None
        known = {"action": self.schema, "observation": {}, "state": {}}
        body = json.dumps(known) if request.path == "/schema" else "nothing here"
        return connection.respond(self.schema_status, body)

    async def session(self, socket):
        if self.sessions >= self.capacity:
            full = {"active_sessions": self.sessions, "max_sessions": self.capacity}
            await socket.send(json.dumps(error("at capacity", "CAPACITY_REACHED", **full)))
            self.refused += 1
            return
        self.sessions += 1
        try:
            await self._serve(socket)
        except ConnectionClosed:
            pass
        finally:
            self.sessions -= 1

    async def _serve(self, socket):
        count = 0
        async for raw in socket:
            message = json.loads(raw)
            if message["type"] == "close":
                self.closed += 1
                return
            if message["type"] == "reset":
                count = 0
                self.resets.append(message["data"])
                answer = self.says_at_start or observation({"text": "count 0", "total": None}, None)
            elif message["type"] == "state":
                answer = {"type": "state", "data": {"episode_id": None, "step_count": 0}}
            elif message["type"] == "mcp":
                result = {"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}
                answer = {"type": "mcp", "data": result}
            else:
                self.actions.append(message["data"])
                count, answer = await self._step(socket, count, message["data"])
            await socket.send(answer if isinstance(answer, str | bytes) else json.dumps(answer))

    async def _step(self, socket, count, action):
        if action.get("type") == "call_tool":
            return count, self._call(action)
        mode = action.get("mode", "plain")
        if mode in LIES:
            return count, LIES[mode]
        if mode == "hang":
            await socket.wait_closed()
        if mode == "die":
            socket.transport.abort()
        if mode == "raise":
            return count, error("the widget fell off", "EXECUTION_ERROR")
        if not 1 <= action["amount"] <= 3:
            return count, INVALID
        if mode == "big":
            return count, observation({"text": "x" * 300_000})
        if mode == "picture":
            encoded = base64.b64encode(png()).decode()
            return count, observation({"text": "look", "screenshot": encoded})
        if mode == "pixels":
            return count, observation({"screenshot": np.full((9, 10, 3), 7).tolist()})
        count += action["amount"]
        done = count >= 3
        cut = {"truncated": True} if mode == "cut" else {}
        return count, observation({"text": f"count {count}", **cut}, float(done), done)

    def _call(self, action):
        name, arguments = action["tool_name"], action["arguments"]
        if name == "add" and arguments["amount"] < 0:
            found = {"error": {"error_type": "invalid_args", "message": "negative"}}
        elif name == "add" and arguments["amount"] == 99:
            found = {"error": {"error_type": "transport_error", "message": "no way there"}}
        else:
            blocks = [{"type": "text", "text": f"{name} {arguments}"}]
            if name == "look":
                blocks.append({"type": "image", "data": base64.b64encode(png()).decode()})
            found = {"result": {"content": blocks, "is_error": False}, "error": None}
        return observation({"tool_name": name, "result": None, **found}, 1.0, name == "look")


@pytest.fixture
async def fake():
    server = await Fake().start()
    yield server
    await server.stop()


@pytest.fixture
async def playing(fake):
    """Make environments of the small server that are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        def make(**params):
            environment = OpenEnv(**{"url": fake.url, **params})
            stack.push_async_callback(environment.close)
            return environment

        yield make


@pytest.fixture(scope="session")
def environment_server(tmp_path_factory):
    """A real environment server; leases are made by its URL."""
    logs = tmp_path_factory.mktemp("logs")
    child = asyncio.run(
        processes.spawn(
            [sys.executable, "-m", "mintact_platform.environments.server.app"],
            {"logs": str(logs)},
            log=logs / "server.log",
            mark=f"openenv-{secrets.token_hex(4)}",
            deadline=60,
        )
    )
    yield child.ready["url"]
    child.kill()


@pytest.fixture
async def lease_of(environment_server):
    """Leases of `openenv/ws` that are released at the end of the test."""
    async with contextlib.AsyncExitStack() as stack:
        numbers = itertools.count()

        async def make(**params):
            lease = await Lease.create(
                environment_server,
                environment="openenv/ws",
                params=params,
                key=f"{secrets.token_hex(8)}-{next(numbers)}",
                deadline=60,
            )
            stack.push_async_callback(lease.release)
            return lease

        yield make


@pytest.fixture(scope="session")
def real_server(tmp_path_factory):
    """The URL of a server made with `openenv-core` itself, in a virtual environment of its own."""
    path = ROOT / "benchmarks" / "environments" / "openenv_install.py"
    spec = importlib.util.spec_from_file_location("openenv_install", path)
    install = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(install)
    children = []

    def start(*roles):
        command = [str(install.python()), str(Path(__file__).with_name("real_server.py")), *roles]
        log = (tmp_path_factory.mktemp("real") / "server.log").open("w")
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        children.append((child, log))
        return child.stdout.readline().strip()

    yield start
    for child, log in children:
        child.kill()
        child.wait()
        child.stdout.close()
        log.close()
