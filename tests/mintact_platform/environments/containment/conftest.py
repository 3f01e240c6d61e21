"""A lease service in this process, and environments that misbehave towards the machine."""

import contextlib
import itertools
import secrets
import sys
from pathlib import Path

import pytest

from mintact_platform import trees
from mintact_platform.environments.protocol.messages import CreateRequest, ResetRequest, StepRequest
from mintact_platform.environments.server import containment
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.containment import Containment
from mintact_platform.environments.server.leases import Refusal
from mintact_platform.environments.server.service import LeaseService
from mintact_platform.registry.names import Registry

ENVIRONMENTS = '''
import os, resource, signal, stat, subprocess, sys, threading, time
import gymnasium


def daemonise(seconds):
    """Leave a process behind that has nothing of ours: its session, its parent, no variables."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", str(seconds)], {})
        os._exit(0)
    os.wait()


def act(name, arguments):
    amount = arguments.get("amount", 0)
    if name == "daemon":
        daemonise(amount)
    if name == "crash after daemon":
        daemonise(amount)
        os._exit(3)
    if name == "kill parent after daemon":
        daemonise(amount)
        os.kill(os.getppid(), signal.SIGKILL)
        threading.Event().wait()
    if name == "shut":
        for entry in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                    os.close(int(entry))
            except OSError:
                pass
        threading.Event().wait()
    if name == "hog":
        held = bytearray(b"x") * (amount << 20)
        time.sleep(60)
    if name == "fill":
        for number in range(amount):
            with open(f"part{number}", "wb") as file:
                # what can be compressed takes no disk on some file systems
                file.write(os.urandom(1 << 20))
        time.sleep(arguments.get("linger", 0))
    if name == "file":
        with open("big", "wb") as file:
            file.write(bytes(amount << 20))
    if name == "open":
        held = [open("/dev/null") for _ in range(amount)]
    if name == "fork":
        for _ in range(amount):
            subprocess.Popen(["sleep", "60"])
        time.sleep(60)
    if name == "flood":
        for _ in range(amount):
            os.write(1, b"x" * 1023 + b"\\n")
        os.write(1, b"the last words\\n")
    if name == "hang":
        threading.Event().wait()
    if name == "raise":
        raise ValueError("the widget fell off")


class Wild(gymnasium.Env):
    metadata = {"mintact": {"domain": "web", "action_space": "browser_use"}}

    def __init__(self, *, fail_while: str = ""):
        if fail_while and os.path.exists(fail_while):
            print("no display, no fun", flush=True)
            raise RuntimeError("no display")

    def reset(self, *, seed=None, options=None):
        params = (options or {}).get("task", {}).get("params", {})
        if os.path.exists(params.get("fail_while", "/nowhere")):
            raise RuntimeError("no network")
        if os.path.exists(params.get("crash_while", "/nowhere")):
            os._exit(4)
        return os.getcwd(), {"pid": os.getpid(), "shm": os.listdir("/dev/shm")}

    def step(self, action):
        act(action["name"], action["arguments"])
        limits = [resource.getrlimit(kind)[0]
                  for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]
        return "done", 0.0, False, False, {
            "limits": limits, "cores": len(os.sched_getaffinity(0)),
            "seen": sum(name.isdigit() for name in os.listdir("/proc")),
        }

    def close(self):
        pass


def limited(**limits):
    ours = {**Wild.metadata["mintact"], "limits": limits}
    return type("Limited", (Wild,), {"metadata": {"mintact": ours}, "__module__": __name__})


Hungry = limited(memory_mb=200)
Wide = limited(disk_mb=8)
Handy = limited(open_files=100, file_mb=4, cpus=1)
Crowd = limited(processes=5)
Wrong = limited(memory=5)


class Shared(Wild):
    metadata = {"mintact": {**Wild.metadata["mintact"], "instances_per_worker": 8}}
'''


class Tenant:
    """A lease on the service, and what its worker consists of."""

    def __init__(self, service, created):
        self.service, self.created = service, created
        self.lease, self.token = created["lease"], created["token"]
        self.worker = created["instance"].partition(".")[0]
        self.steps = itertools.count()

    def processes(self):
        return trees.marked(f"{self.service.mark}/workers/{self.worker}")

    @property
    def log(self):
        return self.service.logs / f"{self.worker}.log"

    async def reset(self, episode="e", **params):
        request = ResetRequest(episode=episode, task={"params": params})
        return await self.service.reset(self.lease, self.token, request)

    async def step(self, name, deadline=60.0, **arguments):
        action = {"name": name, "arguments": arguments}
        request = StepRequest(step=next(self.steps), action=action, deadline_s=deadline)
        return await self.service.step(self.lease, self.token, request)

    async def release(self):
        await self.service.release(self.lease, self.token)


@pytest.fixture(scope="session")
def wild_path(tmp_path_factory):
    """A folder with the module `wild_envs`."""
    folder = tmp_path_factory.mktemp("wild")
    (folder / "wild_envs.py").write_text(ENVIRONMENTS)
    return folder


@pytest.fixture
async def serve(tmp_path, wild_path, monkeypatch):
    """Make services; each has to leave nothing."""
    monkeypatch.syspath_prepend(wild_path)
    monkeypatch.setenv("PYTHONPATH", str(wild_path))
    async with contextlib.AsyncExitStack() as stack:

        async def make(isolation="none", *, limits=None, spares=0, capacity=16):
            name = secrets.token_hex(4)
            service = LeaseService(
                Catalogue(Registry.discover(), None, [sys.executable]),
                capacity,
                tmp_path / name,
                tmp_path / f"logs-{name}",
                f"wild-{name}",
                containment=Containment(isolation, limits or {}),
                spares=spares,
            )
            await service.start()
            stack.push_async_callback(_ended, service)
            return service

        yield make


@pytest.fixture
def lease():
    """Lease an environment of the module."""

    async def make(service, environment="Wild", **values):
        values = {"key": secrets.token_hex(4), **values}
        request = CreateRequest(environment=f"wild_envs:{environment}", **values)
        return Tenant(service, await service.create(request))

    return make


@pytest.fixture
def refused(lease):
    """The status and error of a lease that is refused."""

    async def make(*args, **kwargs):
        with pytest.raises(Refusal) as caught:
            await lease(*args, **kwargs)
        return caught.value.status, caught.value.error

    return make


@pytest.fixture(params=["namespace", "bubblewrap", "none"])
def isolation(request):
    """Every way to close a worker in that this machine has."""
    if not containment.works(request.param):
        pytest.skip(f"{request.param}: refused on this machine; {containment.INSTALL}")
    return request.param


async def _ended(service):
    await service.close()
    assert trees.marked(service.mark) == []
    directory = Path(service.directory)
    assert not directory.exists() or list(directory.iterdir()) == []
