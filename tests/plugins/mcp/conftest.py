"""Servers of the Model Context Protocol, and environments over them."""

import asyncio
import contextlib
import itertools
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from mintact_plugin_mcp.environment import McpTools

from mintact_platform import processes
from mintact_platform.environments.client.lease import Lease

HERE = Path(__file__).parent
SHOP = {"command": sys.executable, "args": [str(HERE / "shop.py"), "stdio"]}


def raw_program(how="well"):
    # without its site packages Python starts in 10 ms
    return {"command": sys.executable, "args": ["-S", "-E", str(HERE / "raw.py"), how]}


@pytest.fixture
def shop():
    """Parameters of the official server as a child process."""
    return SHOP


@pytest.fixture
def raw():
    """Parameters of the plain server, by how it behaves."""
    return raw_program


@pytest.fixture(scope="session")
def shop_url(tmp_path_factory):
    """The official server over HTTP; a function that starts one."""
    children = []

    def start():
        log = (tmp_path_factory.mktemp("shop") / "log").open("w")
        command = [sys.executable, str(HERE / "shop.py"), "http"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        children.append((child, log))
        return child.stdout.readline().strip()

    yield start
    for child, log in children:
        child.kill()
        child.wait()
        child.stdout.close()
        log.close()


@pytest.fixture
async def playing():
    """Make environments that are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        def make(**params):
            environment = McpTools(**params)
            stack.push_async_callback(environment.close)
            return environment

        yield make


@dataclass
class EnvironmentServer:
    url: str
    mark: str

    def processes_of(self, lease):
        """Processes of the worker that hosts a lease's instance."""
        worker = lease.instance.rpartition("@")[2].partition(".")[0]
        return processes.marked(f"{self.mark}/workers/{worker}")


@pytest.fixture(scope="session")
def environment_server(tmp_path_factory):
    """A real environment server whose own environment holds a secret."""
    logs, mark = tmp_path_factory.mktemp("logs"), f"mcp-{secrets.token_hex(4)}"
    child = asyncio.run(
        processes.spawn(
            [sys.executable, "-m", "mintact_platform.environments.server.app"],
            {"logs": str(logs)},
            log=logs / "server.log",
            mark=mark,
            deadline=60,
            environ={"A_SECRET_KEY": "s3cret", "SHOP_NAME": "corner"},
        )
    )
    url = child.ready["url"]
    # one lease keeps the shared worker warm
    body = {"key": "keeper", "environment": "mcp/tools", "params": raw_program(), "ttl_s": 3600}
    httpx.post(f"{url}/v1/leases", json=body, timeout=60, trust_env=False).raise_for_status()
    yield EnvironmentServer(url, mark)
    child.kill()


@pytest.fixture
async def lease_of(environment_server):
    """Leases of `mcp/tools` that are released at the end of the test."""
    async with contextlib.AsyncExitStack() as stack:
        numbers = itertools.count()

        async def make(**params):
            lease = await Lease.create(
                environment_server.url,
                environment="mcp/tools",
                params=params,
                key=f"{secrets.token_hex(8)}-{next(numbers)}",
                deadline=60,
            )
            stack.push_async_callback(lease.release)
            return lease

        yield make
