"""A whole environment server inside one process, on a clock that only tests move.

Workers are real too, hosted on the same loop; their environment does what the test tells it, when
the test tells it. Nothing sleeps and nothing runs in a thread, so that a schedule drawn by
hypothesis plays the same way again.
"""

import asyncio
import contextlib
import itertools
import os
import selectors
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from uvicorn.server import ServerState

from mintact_platform import processes
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.server.app import create_app
from mintact_platform.environments.server.border import Border
from mintact_platform.environments.server.catalogue import Catalogue
from mintact_platform.environments.server.service import LeaseService
from mintact_platform.environments.server.stream import Stream
from mintact_platform.environments.worker.main import Worker, describe
from mintact_platform.records.verdict import StateCheck
from mintact_platform.registry.names import Registry

NOBODY = 1 << 22
"""A number that is no process."""


class _Selector(selectors.DefaultSelector):
    """Never waits: where a real one would, the clock jumps to the next timer."""

    loop: "VirtualLoop"

    def select(self, timeout=None):
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise RuntimeError("deadlock: nothing will ever happen")
        self.loop.now += max(timeout, 1e-6)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop without waiting and without threads."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future

    def play(self, work) -> Any:
        """Run to the end, this loop's clock being the only one of this thread meanwhile."""
        real, here = (time.monotonic, time.perf_counter), threading.get_ident()

        def for_this_thread(clock):
            # other threads have loops too, whose timers would never end at this clock
            return lambda: self.now if threading.get_ident() == here else clock()

        time.monotonic, time.perf_counter = map(for_this_thread, real)
        try:
            return self.run_until_complete(work)
        finally:
            time.monotonic, time.perf_counter = real

    def turns(self, number: int) -> None:
        """A few turns of the loop, in which no time passes."""

        async def turn():
            for _ in range(number):
                await asyncio.sleep(0)

        self.play(turn())

    def pass_time(self, seconds: float) -> None:
        self.play(asyncio.sleep(seconds))


@dataclass
class World:
    """What the environments see, and when they answer.

    Attributes:
        executed: calls by (episode, what).
        users: leases that used an instance.
        waiting: calls that an environment has not answered yet.
        patient: new calls wait until the test answers them.
    """

    executed: Counter = field(default_factory=Counter)
    users: dict[int, set] = field(default_factory=dict)
    waiting: list = field(default_factory=list)
    patient: bool = False
    booted: int = 0
    closed: int = 0

    async def answer(self) -> Any:
        """The verdict on this call: None, `raise` or `garbage`."""
        if not self.patient:
            return None
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        try:
            return await future
        finally:
            if future in self.waiting:
                self.waiting.remove(future)


class Scripted:
    """An environment that does as the world says."""

    world: ClassVar[World]
    metadata: ClassVar = {"mintact": {"domain": "web", "instances_per_worker": 1}}

    def __init__(self, *, flavour: int = 0) -> None:
        self.world.booted += 1
        self.busy = False
        self.world.users[id(self)] = self.users = set()
        self.count = 0

    async def reset(self, *, seed=None, options=None):
        params = options["task"]["params"]
        self.users.add(params["lease"])
        self.episode = f"{params['lease']}/{params['episode']}"
        self.count = 0
        return await self._do("reset", ({"text": f"{self.episode} begins"}, {}))

    async def step(self, action):
        arguments = action["arguments"]
        self.users.add(arguments["lease"])
        self.count += 1
        seen = {"text": f"{self.episode} {arguments['step']} #{self.count}"}
        return await self._do(("step", arguments["step"]), (seen, 1.0, False, False, {}))

    async def evaluate(self):
        return await self._do("evaluate", StateCheck(True, 1.0, {"count": self.count}))

    async def close(self):
        self.world.closed += 1

    async def _do(self, what, result):
        assert not self.busy, f"two calls at once in one instance: {what}"
        self.busy = True
        try:
            self.world.executed[self.episode, what] += 1
            verdict = await self.world.answer()
            if verdict == "raise":
                raise ValueError("the widget fell off")
            return None if verdict == "garbage" else result
        finally:
            self.busy = False


class Shared(Scripted):
    metadata: ClassVar = {"mintact": {"domain": "web", "instances_per_worker": 3}}


class _Registry(Registry):
    tables: ClassVar = {"environments": {"shared": {"t": Shared}, "isolated": {"t": Scripted}}}


class _Child:
    """A worker on the same loop, looking like a process."""

    def __init__(self, worker, description, log) -> None:
        self.worker, self.ready, self.log = worker, {"description": description}, log
        self.process = SimpleNamespace(pid=NOBODY)
        self.killed = False

    def kill(self) -> None:
        self.killed = True
        for instance in self.worker._instances.values():
            for task in getattr(instance, "_tasks", ()):
                task.cancel()
        if self.worker._transport is not None:
            self.worker._transport.abort()

    def log_tail(self, lines=20) -> str:
        return ""

    def alive(self) -> bool:
        return not self.killed


class _Stream(Stream):
    """The server's end of a stream whose other end is the test."""

    is_open = True

    def __init__(self, service) -> None:
        super().__init__(service, Border(), ServerState())
        self.numbers = itertools.count(1)
        self.replies: dict[int, asyncio.Future] = {}

    async def ask(self, method, path, body, token) -> tuple[int, dict]:
        """The call that an HTTP request would make."""
        path, _, query = path.partition("?")
        lease, _, do = path.removeprefix("/v1/leases").removeprefix("/").partition("/")
        if path == "/v1/heartbeat":
            lease, do = "", "heartbeat"
        elif method == "DELETE":
            do = "cancel" if query else "release"
            body = {"key": query.removeprefix("key=")} if query else {}
        number = next(self.numbers)
        self.replies[number] = asyncio.get_running_loop().create_future()
        self.message(wire.pack([[number, do or "create", lease, token, body or {}]]))
        return await self.replies[number]

    def send(self, data) -> None:
        for number, status, body in wire.unpack(data):
            future = self.replies.pop(number)
            if not future.done():
                future.set_result((status, wire.unpack(body)))

    def lose(self) -> None:
        """The connection breaks; what it asked is not answered any more."""
        for future in self.replies.values():
            future.cancel()


@dataclass
class Site:
    """A server in this process, and requests to it.

    Attributes:
        loop: its clock.
        world: its environments.
        children: every worker it ever started.
    """

    folder: Path
    logs: Path
    capacity: int = 3
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    world: World = field(default_factory=World)
    children: list = field(default_factory=list)
    boots: list = field(default_factory=list)
    slow_boots: bool = False
    names: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        Scripted.world = self.world
        self.loop.play(self._start())

    async def _start(self) -> None:
        self.service = LeaseService(
            Catalogue(_Registry(None, [])), self.capacity, self.folder, self.logs, "virtual"
        )
        # guessable, so that a schedule plays the same way again
        self.service.table._names = lambda: f"name-{next(self.names):04}"
        self.app = create_app(self.service)
        self.stream = _Stream(self.service)
        await self.service.start()
        await asyncio.sleep(0)
        self.permanent = asyncio.all_tasks() - {asyncio.current_task()}

    def restart(self) -> None:
        """A new server where the old one was; it knows nothing."""
        self.loop.play(self.service.close())
        self.stream.lose()
        self.loop.play(self._start())

    def close(self) -> None:
        self.loop.play(self.service.close())
        self.loop.turns(5)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.play(asyncio.wait(tasks))
        self.loop.close()

    async def spawn(self, command, spec, *, mark, log, deadline, **rest) -> _Child:
        """In place of `processes.spawn`: the real worker, on this loop."""
        loop = asyncio.get_running_loop()
        if self.slow_boots:
            gate = loop.create_future()
            self.boots.append(gate)
            async with asyncio.timeout(deadline):
                await gate
        kind = _Registry(None, []).get("environments", spec["environment"])
        worker = Worker(kind, Path(spec["directory"]), asyncio.Event())
        channel = socket.socket(fileno=os.dup(spec["fd"]))
        channel.setblocking(False)
        await loop.create_unix_connection(lambda: worker, sock=channel)
        self.children.append(_Child(worker, describe(kind), log))
        return self.children[-1]

    def post(self, path, body=None, *, token="", method="POST", stream=False) -> asyncio.Task:
        """Begin a request; the task's result is status and body."""
        ask = self.stream.ask if stream else self._request
        return self.loop.create_task(ask(method, path, body, token))

    async def _request(self, method, path, body, token) -> tuple[int, dict]:
        received: list = []
        gone = asyncio.get_running_loop().create_future()
        messages = [{"type": "http.request", "body": wire.pack(body or {}), "more_body": False}]

        async def receive():
            return messages.pop() if messages else await gone

        async def send(message):
            received.append(message)

        path, _, query = path.partition("?")
        headers = [
            (b"content-type", b"application/msgpack"),
            (b"mintact-lease-token", token.encode()),
        ]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": headers, "http_version": "1.1",
            "scheme": "http", "root_path": "", "client": ("test", 1), "server": ("test", 80),
        }  # fmt: skip
        await self.app(scope, receive, send)
        data = b"".join(message.get("body", b"") for message in received)
        return received[0]["status"], wire.unpack(data)

    def residue(self, names) -> list[str]:
        """Where in the service these names are still mentioned."""
        found, seen = [], set()

        def look(value, where):
            if isinstance(value, str | bytes):
                if value in names:
                    found.append(f"{where} = {value!r}")
                return
            if id(value) in seen or isinstance(value, int | float | type | None.__class__):
                return
            seen.add(id(value))
            if isinstance(value, dict):
                for key, item in value.items():
                    look(key, f"{where}[key]")
                    look(item, f"{where}[{key!r}]")
            elif isinstance(value, list | tuple | set | frozenset):
                for item in value:
                    look(item, f"{where}[…]")
            elif type(value).__module__.startswith("mintact_platform"):
                for name in getattr(value, "__dict__", None) or getattr(value, "__slots__", ()):
                    if name != "_cancelled":
                        with contextlib.suppress(AttributeError):
                            look(getattr(value, name), f"{where}.{name}")

        look(self.service, "service")
        return found


@pytest.fixture(scope="module")
def site_of(tmp_path_factory):
    """Make sites; workers are started on their loops meanwhile."""
    sites, real = [], processes.spawn

    async def spawn(*args, **kwargs):
        return await sites[-1].spawn(*args, **kwargs)

    def make(**options) -> Site:
        sites.append(Site(*(tmp_path_factory.mktemp(name) for name in ("site", "logs")), **options))
        return sites[-1]

    processes.spawn = spawn
    yield make
    processes.spawn = real
