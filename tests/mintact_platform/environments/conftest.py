"""A real environment server, and environments that count, hang, crash, lie and litter."""

import asyncio
import contextlib
import itertools
import os
import secrets
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from mintact_platform import processes
from mintact_platform.environments.client.lease import Lease
from mintact_platform.records.task import Task

ENVIRONMENTS = '''
import asyncio, os, signal, subprocess, sys, threading
import gymnasium
import numpy as np
from mintact_platform.environments import CallSpace, ScreenSpace
from mintact_platform.records.verdict import StateCheck


def act(environment, name, arguments):
    """What a step does, by the name of its call."""
    if name == "hang":
        threading.Event().wait()
    if name == "spin":
        while True:
            pass
    if name == "crash":
        print("about to crash", flush=True)
        os._exit(3)
    if name == "raise":
        raise ValueError("the widget fell off")
    if name == "exit":
        sys.exit("enough")
    if name == "thread":
        environment.child = threading.get_ident() == threading.main_thread().ident
    if name == "stop":
        next(iter(()))
    if name == "fifo":
        with open(arguments["path"]) as fifo:
            fifo.read()
    if name == "browser":
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"],
                                   start_new_session=True)
        environment.child = process.pid
    if name == "print":
        os.write(1, b"\\\\x00\\\\xff noise on standard output")
    if name == "write":
        with open("litter.txt", "w") as file:
            file.write("x")


GARBAGE = {
    "none": (None, 0.0, False, False, {}),
    "nan": ("text", float("nan"), False, False, {}),
    "float picture": ({"screenshot": np.zeros((4, 4, 3))}, 0.0, False, False, {}),
    "number text": ({"text": 7}, 0.0, False, False, {}),
    "flag": ("text", 0.0, "no", False, {}),
    "info": ("text", 0.0, False, False, None),
    "four": ("text", 0.0, False, False),
    "surrogate": ("\\ud800", 0.0, False, False, {}),
    "huge": ("x" * 1_000_001, 0.0, False, False, {}),
}


class Counter(gymnasium.Env):
    """Counts its steps; `journal` is a file that records what was really executed."""

    metadata = {"mintact": {"domain": "web", "action_space": "browser_use"}}

    def __init__(self, *, size: int = 8, journal: str = "", boot: str = "", fail: bool = False):
        if boot:
            with open(boot) as fifo:
                fifo.read()
        if fail:
            raise RuntimeError("no display")
        self.action_space = CallSpace()
        self.observation_space = ScreenSpace(size, size)
        self.size, self.journal, self.child = size, journal, 0

    def note(self, line):
        if self.journal:
            with open(self.journal, "a") as file:
                file.write(line + "\\n")

    def see(self):
        return {
            "screenshot": np.full((self.size, self.size, 3), self.count % 256, np.uint8),
            "text": f"{self.count} in {os.getcwd()}",
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.note("reset")
        return self.see(), {"goal": (options or {}).get("task", {}).get("goal"), "pid": os.getpid()}

    def step(self, action):
        self.note(f"step {action['name']}")
        if action["name"] == "garbage":
            return GARBAGE[action["arguments"]["which"]]
        act(self, action["name"], action["arguments"])
        self.count += 1
        return self.see(), 0.5, self.count >= 100, False, {"child": self.child}

    def evaluate(self):
        self.note("evaluate")
        return StateCheck(self.count >= 2, 0.5, {"count": self.count})

    def close(self):
        self.note("close")


class Shared(Counter):
    metadata = {"mintact": {**Counter.metadata["mintact"], "instances_per_worker": 64}}


class Gated(Shared):
    """Its reset waits at the pipe that is named like the task, if there is one."""

    def __init__(self, *, gates: str, journal: str = ""):
        super().__init__(journal=journal)
        self.gates = gates

    def reset(self, *, seed=None, options=None):
        task = options["task"]["id"]
        self.note(f"begin {task}")
        if os.path.exists(os.path.join(self.gates, task)):
            with open(os.path.join(self.gates, task)) as fifo:
                if fifo.read() == "fail":
                    raise RuntimeError("no such page")
        observation, info = super().reset(seed=seed, options=options)
        self.note(f"end {task}")
        return {**observation, "text": task}, info


class Inline(Counter):
    metadata = {"mintact": {"inline": True, "instances_per_worker": 64}}


class Light(Counter):
    metadata = {"mintact": {"isolation": "thread"}}


class Siblings(Counter):
    metadata = {"mintact": {"instances_per_worker": 4}}


class NeverResets(Shared):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no such page")


class Needy(Counter):
    metadata = {"mintact": {"requires": {"no-such-browser": "chromium-of-dreams"}}}


class Text(gymnasium.Env):
    """No state check, and an observation that is no dictionary."""

    def reset(self, *, seed=None, options=None):
        return np.arange(3), {}

    def step(self, action):
        return np.arange(3), 1, np.bool_(True), False, {"array": np.arange(2), "odd": object()}


class Awaited:
    metadata = {"mintact": {"domain": "tools", "instances_per_worker": 8}}

    def __init__(self, *, start: int = 0):
        self.start = start

    async def reset(self, *, seed=None, options=None):
        self.count = self.start
        return {"text": str(self.count)}, {"tools": [{"name": "a"}], "pid": os.getpid()}

    async def step(self, action):
        if action["name"] == "hang":
            await asyncio.Event().wait()
        self.count += 1
        return {"text": str(self.count)}, 0.0, False, False, {}

    async def evaluate(self):
        return StateCheck(True, 1.0)

    async def close(self):
        pass


async def awaited_factory(*, start: int = 0):
    return Awaited(start=start)


def factory_of_awaited(*, start: int = 0):
    return Awaited(start=start)
'''

TASK = Task("t", "reach two", "web")


@dataclass
class Server:
    """A running environment server."""

    child: processes.Child
    url: str
    mark: str

    @property
    def stream(self) -> str:
        """The address of its stream."""
        return f"ws{self.url.removeprefix('http')}/v1/stream"

    def processes_of(self, lease) -> list[int]:
        """Processes of the worker that hosts a lease's instance; its own pids are a namespace's."""
        worker = lease.instance.rpartition("@")[2].partition(".")[0]
        return processes.marked(f"{self.mark}/workers/{worker}")

    async def lease(self, environment="trial_envs:Shared", *, deadline=60.0, **options) -> Lease:
        key = options.pop("key", f"key-{secrets.token_hex(8)}")
        return await Lease.create(
            self.url,
            environment=environment,
            params=options.pop("params", {}),
            key=key,
            ttl=options.pop("ttl", 60.0),
            deadline=deadline,
            **options,
        )


@pytest.fixture(scope="session")
def trial_path(tmp_path_factory):
    """A folder with the module `trial_envs`, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("trial")
    (folder / "trial_envs.py").write_text(ENVIRONMENTS)
    return folder


@pytest.fixture(scope="session")
def start_server(trial_path, tmp_path_factory):
    """Start an environment server; all are stopped at the end of the session."""
    children = []
    numbers = itertools.count()

    async def start(**spec) -> Server:
        logs = tmp_path_factory.mktemp("logs")
        mark = f"trial-{secrets.token_hex(4)}-{next(numbers)}"
        child = await processes.spawn(
            [sys.executable, "-m", "mintact_platform.environments.server.app"],
            {"logs": str(logs), **spec},
            log=logs / "server.log",
            mark=mark,
            deadline=60,
            environ={"PYTHONPATH": str(trial_path)},
        )
        children.append(child)
        return Server(child, child.ready["url"], mark)

    yield start
    for child in children:
        child.kill()


@pytest.fixture(scope="session")
def server(start_server):
    """One server shared by the tests that do not kill it."""
    server = asyncio.run(start_server())
    # one lease keeps the shared worker warm
    body = {"key": "keeper", "environment": "trial_envs:Shared", "ttl_s": 3600}
    httpx.post(f"{server.url}/v1/leases", json=body, timeout=60, trust_env=False)
    return server


@pytest.fixture
def transport():
    """How the leases of `lease_of` call; a module runs its tests over both by overriding it."""
    return "auto"


@pytest.fixture
async def lease_of(server, transport):
    """Make leases that are released at the end of the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(environment="trial_envs:Shared", **options) -> Lease:
            lease = await server.lease(environment, **{"transport": transport, **options})
            stack.push_async_callback(lease.release)
            return lease

        yield make


@pytest.fixture
def server_pid():
    """The server that a manager started here, by the mark of this process's children."""

    def command(process) -> list[str]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.cmdline()
        return []  # it ended meanwhile

    def find() -> int:
        marked = processes.marked(os.environ["MINTACT_MARK"])
        # not what it forks, which has its name until it runs something else
        return next(
            child.pid
            for child in psutil.Process().children()
            if child.pid in marked and "mintact_platform.environments.server.app" in command(child)
        )

    return find


@pytest.fixture
def kept_port():
    """A port for a server that comes back: nobody else gets it while there is none."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def task():
    return TASK


@pytest.fixture
def fifo(tmp_path):
    """Make a pipe in the file system; reading it blocks until `open_fifo` writes."""

    def make(name="gate") -> Path:
        path = tmp_path / name
        subprocess.run(["mkfifo", str(path)], check=True)
        return path

    return make
