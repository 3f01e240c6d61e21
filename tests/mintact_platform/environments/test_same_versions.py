"""An environment server, or a worker, that has another version of an environment is refused."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry

CARTPOLE = "gym/CartPole-v1"


@pytest.mark.parametrize(
    ("requires", "complaint"),
    [
        (["mintact-platform>=0.1"], None),
        (["mintact-platform==9"], "mintact-platform==9 is required, 0.1.0 is installed; pip inst"),
        (["acme-of-another-environment==9"], None),
        (["not a requirement"], "cannot read 'not a requirement'"),
    ],
    ids=str,
)
async def test_a_lease_may_ask_for_a_version(server, requires, complaint):
    body = {"key": f"versions-{requires}", "environment": CARTPOLE, "requires": requires}
    body["params"] = {"screenshot": False}
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        reply = await client.post("/v1/leases", json=body)
        if complaint is None:
            assert reply.status_code == 200, reply.text
            token = {"mintact-lease-token": reply.json()["token"]}
            await client.delete(f"/v1/leases/{reply.json()['lease']}", headers=token)
        else:
            error = reply.json()["error"]
            assert (reply.status_code, error["kind"]) == (400, "configuration")
            assert complaint in error["message"]


async def test_a_name_of_one_s_own_file_has_no_version_to_compare():
    catalogue = Catalogue(Registry.discover())
    with pytest.raises(ConfigurationError, match="cannot import 'no_such_file:Maze'"):
        await catalogue.resolve("no_such_file:Maze", {}, None, ["mintact-platform==9"])


async def test_a_worker_of_another_interpreter_is_asked_itself(tmp_path):
    catalogue = Catalogue(Registry.discover(), pythons=["/other/python"])
    wanted = await catalogue.resolve(CARTPOLE, {}, "/other/python", ["mintact-platform==9"])
    assert wanted.requires == ("mintact-platform==9",)
    program = f"""
from mintact_platform.environments.worker.main import _load
from mintact_platform.errors import PluginError
try:
    _load({CARTPOLE!r}, None, {list(wanted.requires)!r})
except PluginError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("environment worker: mintact-platform==9 is required"), (
        done.stderr
    )


FORKS = """
import json, os, sys
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.worker.instance import Driver


class Forks:
    def step(self, action):
        self.child = os.fork()
        if action == "raise":
            raise ValueError("both of us")
        return "text", 0.0, False, False, {}


driver = Driver(Forks, "png")
driver.attempt("create", {"params": {}})
for action in ("return", "raise"):
    ok, body = driver.attempt("step", {"action": action})
    status = os.waitpid(driver.environment.child, 0)[1]
    print(json.dumps([action, ok, status, sorted(wire.unpack(body))]))
"""


def test_a_copy_that_an_environment_forks_never_answers(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines] == [["return", True, 0], ["raise", False, 0]], done.stderr
    assert lines[1][3] == ["kind", "message"]
