"""Environments of the soak: they count, and on request they break in every way we know.

Imported by workers only; the tests put this folder on their search path.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np

from mintact_platform.environments import CallSpace, ScreenSpace
from mintact_platform.environments.protocol.wire import pack
from mintact_platform.records.verdict import StateCheck

SLEEP = "import time; time.sleep(600)"


def hang(environment, arguments):
    threading.Event().wait()


def spin(environment, arguments):
    while True:
        pass


def hang_locked(environment, arguments):
    """Sleep without giving up the interpreter: no other thread of the worker runs any more."""
    ctypes.PyDLL(None).sleep(600)


def freeze(environment, arguments):
    os.kill(os.getpid(), signal.SIGSTOP)


def leave(environment, arguments):
    os._exit(arguments.get("status", 0))


def crash(environment, arguments):
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(environment, arguments):
    raise ValueError("the widget fell off")


def garbage(environment, arguments):
    return {"screenshot": np.zeros((4, 4, 3))}, float("nan"), "no", None, []


def sockets():
    """Descriptors of this process that are sockets: among them the worker's channel."""
    for entry in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                yield int(entry)
        except OSError:
            continue


def write_channel(environment, arguments):
    """Write over the channel: noise, a reply that is no message, the beginning of a large one."""
    rubbish = {
        "noise": os.urandom(300),
        "shape": pack({"not": "a reply"}),
        "numbers": pack([[1], True, 7]),
        "foreign": b"".join(pack([n, True, b"\xc1 no reply"]) for n in range(4096)),
        "half": b"\x93\x01\xc3\xc6\x03\x00\x00\x00" + b"x" * 1000,
        "deep": b"\x91" * 100_000,
        "many": b"\xdd\xff\xff\xff\xff" + b"\x01" * 1000,
    }[arguments["what"]]
    for descriptor in sockets():
        try:
            os.write(descriptor, rubbish)
        except OSError:
            continue
    threading.Event().wait()


def close_descriptors(environment, arguments):
    os.closerange(3, 512)


def daemons(environment, arguments):
    """Start processes that want to stay: in a session of their own, one without its variables."""
    token = arguments["token"]
    for environ in (None, {}):
        subprocess.Popen([sys.executable, "-c", SLEEP, token], start_new_session=True, env=environ)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", SLEEP, token], os.environ)
        os._exit(0)


def threads(environment, arguments):
    for _ in range(8):
        threading.Thread(target=threading.Event().wait).start()


def fill(environment, arguments):
    """Write into the own directory until the disk, or a limit of a file, says no."""
    size = int(arguments.get("mb", 1)) << 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with open("full", "wb") as file:
        while True:
            file.write(b"x" * (1 << 16))


def litter(environment, arguments):
    """Leave what is hard to delete: deep folders, links that lead outside, forbidden folders."""
    os.symlink(arguments["outside"], "link")
    os.makedirs("forbidden/inside")
    os.chmod("forbidden", 0)
    here = os.open(".", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.fchdir(here)
    os.close(here)


def flood(environment, arguments):
    for _ in range(200):
        os.write(1, b"\x00\xff noise " * 100 + b"\n")


DEEDS = {
    deed.__name__: deed
    for deed in (
        hang, spin, hang_locked, freeze, leave, crash, fail, garbage, write_channel,
        close_descriptors, daemons, threads, fill, litter, flood,
    )
}  # fmt: skip


class Isolated(gymnasium.Env):
    """One worker for each; `reset` and `close` misbehave by the task's parameters.

    Args:
        journal: a file that records what was really executed.
        bad: how its life goes wrong: `boot`, `boot hang`.
    """

    metadata = {"mintact": {"domain": "web", "action_space": "browser_use"}}

    def __init__(self, *, journal: str = "", bad: str = ""):
        if bad == "boot":
            raise RuntimeError("no display")
        if bad == "boot hang":
            threading.Event().wait()
        self.action_space, self.observation_space = CallSpace(), ScreenSpace(8, 8)
        self.journal, self.bad, self.count = journal, {}, 0

    def note(self, what):
        if self.journal:
            line = f"{what}\n".encode()
            descriptor = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line)
            os.close(descriptor)

    def see(self):
        picture = np.full((8, 8, 3), self.count % 256, np.uint8)
        return {"screenshot": picture, "text": f"{self.count} in {os.getcwd()}"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bad = options["task"]["params"]
        self.count = 0
        self.note(f"reset {options['task']['id']}")
        time.sleep(self.bad.get("slow_reset", 0))
        return self.see(), {}

    def step(self, action):
        arguments = action["arguments"]
        self.note(f"step {arguments.get('tag', '')}")
        deed = DEEDS.get(action["name"])
        returned = deed and deed(self, arguments)
        if returned is not None:
            return returned
        self.count += 1
        return self.see(), 1.0, False, False, {}

    def evaluate(self):
        return StateCheck(self.count > 0, 1.0, {"count": self.count})

    def close(self):
        time.sleep(self.bad.get("slow_close", 0))
        if self.bad.get("bad_close"):
            raise OSError("cannot close")


class Light(Isolated):
    """Many share a worker."""

    metadata = {"mintact": {**Isolated.metadata["mintact"], "instances_per_worker": 32}}
