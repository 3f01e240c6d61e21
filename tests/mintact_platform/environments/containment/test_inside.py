"""Real programs inside every isolation: a browser, and a server that is not root."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from mintact_env_micro import tasks
from mintact_env_micro.browser import browser_path

import mintact_platform
from mintact_platform import trees
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import CreateRequest, ResetRequest, StepRequest

AS_NOBODY = """
import asyncio, json, os, sys, tempfile
from pathlib import Path
from mintact_platform import trees
from mintact_platform.environments.server import containment
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.containment import Containment
from mintact_platform.environments.protocol.messages import CreateRequest, ResetRequest, StepRequest
from mintact_platform.environments.server.service import LeaseService
from mintact_platform.registry.names import Registry

async def main(isolation):
    folder, mark = Path(tempfile.mkdtemp()), f"nobody-{os.getpid()}"
    service = LeaseService(Catalogue(Registry.discover()), 4, folder / "d", folder / "logs", mark,
                           containment=Containment(isolation))
    await service.start()
    created = await service.create(CreateRequest(key="k", environment="wild_envs:Wide"))
    names = created["lease"], created["token"]
    first = await service.reset(*names, ResetRequest(episode="e"))
    action = {"name": "fill", "arguments": {"amount": 20, "linger": 30}}
    full = await service.step(*names, StepRequest(step=0, action=action, deadline_s=60))
    await service.release(*names)
    await service.close()
    left = [*trees.marked(mark), *map(str, (folder / "d").iterdir())]
    print(json.dumps({"uid": os.getuid(), "first": first.error, "left": left,
                      "full": full.error and full.error.kind}))

if containment.works(sys.argv[1]):
    asyncio.run(main(sys.argv[1]))
else:
    print("refused")
"""


@pytest.mark.skipif(browser_path() is None, reason="no Chromium")
async def test_a_real_browser_works_and_leaves_nothing(serve, isolation):
    service = await serve(isolation)
    task = next(iter(tasks.web(split="test")))
    created = await service.create(CreateRequest(key="k", environment="micro/web"))
    names = created["lease"], created["token"]
    request = ResetRequest(episode="e", task=task.to_json(), seed=task.seed)
    reply = await service.reset(*names, request)
    assert reply.error is None, reply.error
    seen = wire.Observation.unpack(wire.unpack(reply.body))
    assert seen.images[0].width > 100
    processes = trees.marked(service.mark)
    assert len(processes) > 4
    action = {"name": "browser_use", "arguments": {"action": "scroll", "coordinate": [50, 50]}}
    await service.step(*names, StepRequest(step=0, action=action))
    await service.release(*names)
    assert trees.marked(service.mark) == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root")
def test_a_server_that_is_not_root_closes_its_workers_in_as_well(isolation, wild_path, everybodys):
    shutil.copy(wild_path / "wild_envs.py", everybodys)
    python, environ = interpreter_of_nobody(everybodys)
    run = as_nobody([python, "-c", AS_NOBODY, isolation], environ)
    assert run.returncode == 0, run.stderr
    if run.stdout == "refused\n":
        pytest.skip(f"{isolation}: refused to an ordinary user on this machine")
    seen = json.loads(run.stdout)
    assert (seen["uid"], seen["first"]) == (65534, None)
    assert seen["full"] == ("disk" if isolation == "none" else "OSError")
    assert seen["left"] == []


def as_nobody(command, environ):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return subprocess.run(
        [*nobody, *command], cwd="/", env=environ, capture_output=True, text=True, check=False
    )


def interpreter_of_nobody(folder):
    """This interpreter or the system's own one of the same version, and its variables."""
    packages = [str(folder), str(Path(mintact_platform.__file__).parents[1])]
    packages.append(sysconfig.get_path("purelib"))
    environ = {name: str(folder) for name in ("TMPDIR", "HOME")}
    environ |= {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(packages)}
    imports = "import mintact_platform.environments.server.service, wild_envs"
    again = f"import subprocess as s, sys; s.run([sys.executable, '-c', {imports!r}], check=True)"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if as_nobody([python, "-c", again], environ).returncode == 0:
            return python, environ
    pytest.skip("no interpreter that another user may run")


@pytest.fixture
def everybodys():
    """A folder that every user may write, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)
