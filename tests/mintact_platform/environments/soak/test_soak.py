"""Lives of leases in which everything goes wrong, and a server that holds nothing afterwards."""

import asyncio
import collections
import inspect
import json
import os
import random
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.server.containment import isolation
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

LONG = 60.0
"""Deadline of what must succeed, however busy the machine is."""
SHORT = 1.0
"""Deadline of what never answers."""
SHARE = 0.05
"""Lives in which something goes wrong."""

FAULTS = {
    # what goes wrong: how the episode may end
    "kill": {"step:crash"},
    "kill while stepping": {"step:crash"},
    "hang": {"step:timeout"},
    "hang_locked": {"step:timeout"},
    "freeze": {"step:timeout"},
    "leave": {"step:crash"},
    "crash": {"step:crash"},
    "fail": {"step:ValueError"},
    "garbage": {"step:invalid"},
    "channel noise": {"step:crash", "step:timeout"},
    "channel shape": {"step:crash"},
    "channel numbers": {"step:crash"},
    "channel foreign": {"step:invalid"},
    "channel half": {"step:timeout"},
    "channel deep": {"step:crash"},
    "channel many": {"step:crash", "step:timeout"},
    "close_descriptors": {"step:crash", "step:timeout"},
    "daemons": {"completed"},
    "threads": {"completed"},
    "litter": {"completed"},
    "flood": {"completed"},
    "fill": {"step:OSError"},
    "boot": {"create:RuntimeError", "create:quarantined"},
    "boot hang": {"create:timeout", "create:quarantined"},
    "slow reset": {"reset:timeout"},
    "slow close": {"completed"},
    "bad close": {"completed"},
    "client death": {"abandoned"},
    "client death while stepping": {"abandoned"},
    "half-open": {"step:timeout"},
}
PARAMS = {
    "slow reset": {"slow_reset": 600},
    "slow close": {"slow_close": 600},
    "bad close": {"bad_close": True},
}
COUNT = {"name": "count", "arguments": {}}
NAMESPACES = isolation() != "none"
TRANSPORTS = ["http"]
if "transport" in inspect.signature(Lease.create).parameters:
    TRANSPORTS.append("stream")


def plan(seed: int, cycles: int, isolated: float) -> list[tuple[str, str]]:
    """Environment and fault of each life: every fault in turn, scattered."""
    draw = random.Random(seed)
    names = list(FAULTS)
    draw.shuffle(names)
    count = max(round(cycles * SHARE), len(names))
    faults = [names[n % len(names)] for n in range(count)]
    lives = [*faults, *[""] * (cycles - len(faults))]
    draw.shuffle(lives)
    share = {True: 0.5, False: isolated}
    return [("Isolated" if draw.random() < share[f != ""] else "Light", f) for f in lives]


@dataclass
class Soak:
    """Runs lives against a server.

    Attributes:
        outcomes: how many lives ended how, by environment, fault and outcome.
        wrong: lives that ended as they must not.
    """

    server: object
    transport: str
    proxy_to: object
    outside: str
    token: str = field(default_factory=lambda: f"soak-daemon-{secrets.token_hex(6)}")
    outcomes: collections.Counter = field(default_factory=collections.Counter)
    wrong: list = field(default_factory=list)

    async def run(self, lives, *, concurrency=12, progress=None) -> None:
        gate, done, start = asyncio.Semaphore(concurrency), 0, time.monotonic()

        async def one(number, kind, fault):
            nonlocal done
            async with gate:
                outcome = await self.live(number, kind, fault)
            done += 1
            self.outcomes[kind, fault or "none", outcome] += 1
            if outcome not in self.allowed(kind, fault):
                self.wrong.append((number, kind, fault, outcome))
            if progress and done % progress == 0:
                seconds = time.monotonic() - start
                print(f"{done}/{len(lives)} in {seconds:.0f} s", self.wrong[-3:], flush=True)

        await asyncio.gather(*(one(n, *life) for n, life in enumerate(lives)))

    @staticmethod
    def allowed(kind: str, fault: str) -> set[str]:
        """Siblings in a worker die with it; who is alone never suffers from others."""
        allowed = FAULTS.get(fault, {"completed"})
        if kind == "Light":
            phases = ("create", "reset", "step", "evaluate")
            kinds = ("crash", "invalid")
            allowed = allowed | {f"{phase}:{kind}" for phase in phases for kind in kinds}
        return allowed

    async def live(self, number: int, kind: str, fault: str) -> str:
        """One life; its outcome, an unexpected exception by its name."""
        try:
            if fault == "half-open":
                async with self.proxy_to(self.server.url) as proxy:
                    return await self._live(number, kind, fault, proxy.url, proxy)
            return await self._live(number, kind, fault, self.server.url, None)
        except EnvironmentFailure as failure:
            return f"{failure.phase}:{failure.kind}"
        except Exception as error:
            return f"UNTYPED {error!r}"

    async def _live(self, number, kind, fault, url, proxy) -> str:
        options = {} if len(TRANSPORTS) == 1 else {"transport": self.transport}
        dies = fault.startswith(("client death", "half-open"))
        lease = await Lease.create(
            url,
            environment=f"soak_envs:{kind}",
            params={"bad": fault} if fault.startswith("boot") else {},
            key=f"{self.token}-{number}-{secrets.token_hex(4)}",
            ttl=8.0 if dies else LONG,
            deadline=4.0 if fault == "boot hang" else LONG,
            **options,
        )
        try:
            await self._episode(lease, number, fault, proxy)
            return "abandoned" if fault.startswith("client death") else "completed"
        finally:
            if fault.startswith("client death"):
                await forget(lease)
            else:
                await lease.release(deadline=0.5 if fault in ("slow close", "half-open") else LONG)

    async def _episode(self, lease, number, fault, proxy) -> None:
        task = Task(f"t{number}", "survive", "web", params=PARAMS.get(fault, {}))
        slow = fault == "slow reset"
        await lease.reset(episode="e", task=task, seed=0, deadline=SHORT if slow else LONG)
        await lease.step(step=0, action=COUNT, deadline=LONG)
        if fault == "client death":
            return
        if fault.startswith(("kill", "client death while")):
            await self._interrupted(lease, fault)
            return
        if proxy is not None:
            proxy.stall()
        action, short = self._deed(fault, number)
        await lease.step(step=1, action=action, deadline=SHORT if short else LONG)
        await lease.step(step=2, action=COUNT, deadline=LONG)
        check = await lease.evaluate(deadline=LONG)
        assert (check.success, check.details["count"]) == (True, 3), check

    async def _interrupted(self, lease, fault) -> None:
        """Something from outside happens before or during a step."""
        hang = {"name": "hang", "arguments": {}}
        # the server lets a call of a dead client run to the call's own deadline
        deadline = 3.0 if fault.startswith("client") else LONG
        action = COUNT if fault == "kill" else hang
        step = asyncio.create_task(lease.step(step=1, action=action, deadline=deadline))
        if fault != "kill":
            await asyncio.sleep(0.05)
        if fault.startswith("client"):
            step.cancel()
            await asyncio.wait([step])
            return
        for pid in self.server.workers(lease.instance.partition("@")[2].partition(".")[0]):
            # a sibling's kill, or the death of its parent, may have been quicker
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await step
        await lease.step(step=2, action=COUNT, deadline=LONG)

    def _deed(self, fault: str, number: int) -> tuple[dict, bool]:
        """The action, and whether it never answers."""
        if fault.startswith("channel"):
            what = fault.partition(" ")[2]
            arguments = {"what": what}
            return {"name": "write_channel", "arguments": arguments}, what in (
                "noise",
                "half",
                "many",
            )
        arguments = {"outside": self.outside, "token": self.token, "tag": str(number)}
        stuck = fault in ("hang", "hang_locked", "freeze", "close_descriptors", "half-open")
        return {"name": fault or "count", "arguments": arguments}, stuck

    def summary(self) -> str:
        names = (" · ".join(key) for key in sorted(self.outcomes))
        counts = (self.outcomes[key] for key in sorted(self.outcomes))
        return json.dumps(dict(zip(names, counts, strict=True)), indent=1)


async def forget(lease) -> None:
    """What is left of a client that died: its connection closes, nobody says goodbye."""
    close = getattr(lease._connection, "close", None)
    if close is not None:
        await close()


@pytest.fixture(params=TRANSPORTS)
async def soak(request, watched_server, proxy_to, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("not yours")
    server = await watched_server()
    yield Soak(server, request.param, proxy_to, str(outside))
    server.child.kill()


async def check(soak, cycles, isolated, concurrency, find_argument, progress=None) -> None:
    """Run the lives, then look for what they left."""
    server = soak.server
    warm = [("Light", ""), ("Isolated", "")] * 4 + [("Light", "hang"), ("Isolated", "kill")]
    await soak.run(warm, concurrency=4)
    await server.settled()
    before = server.holdings()
    await soak.run(plan(1, cycles, isolated), concurrency=concurrency, progress=progress)
    print(soak.summary())
    assert not soak.wrong, soak.wrong[:20]
    await server.settled()
    assert os.listdir(soak.outside) == ["precious"]
    after = server.holdings()
    print(before, after, sep="\n")
    assert after.descriptors <= before.descriptors + 2
    assert after.sockets <= before.sockets + 1
    assert after.listening == before.listening
    assert after.children <= before.children
    assert after.threads <= before.threads + 8
    assert after.megabytes <= before.megabytes + 48
    left = find_argument(soak.token)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left or not NAMESPACES, "daemons outlived their lease"


@pytest.mark.runs
async def test_hundreds_of_lives_with_faults_leave_nothing(soak, find_argument):
    await check(soak, 300, 0.1, 12, find_argument)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_lives_with_faults_leave_nothing(soak, find_argument):
    await check(soak, 10_000, 0.1, 24, find_argument, progress=250)


CLIENT = """
import asyncio, pathlib, sys
from mintact_platform.environments.client.lease import Lease
from mintact_platform.records.task import Task

async def main(url, journal):
    kept = []
    for number in range(3):
        lease = await Lease.create(url, environment="soak_envs:Light", key=f"dies-{number}",
                                   params={"journal": journal}, ttl=8.0, deadline=60)
        await lease.reset(episode="e", task=Task("t", "g", "web"), seed=0, deadline=60)
        hang = lease.step(step=0, action={"name": "hang", "arguments": {}}, deadline=8)
        kept.append((lease, asyncio.create_task(hang) if number < 2 else hang.close()))
    while pathlib.Path(journal).read_text().count("step") < 2:
        await asyncio.sleep(0.01)
    print("stepping", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_client_process_leaves_nothing(watched_server, tmp_path):
    server = await watched_server()
    words = (sys.executable, "-c", CLIENT, server.url, str(tmp_path / "journal"))
    client = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert await client.stdout.readline() == b"stepping\n"
    assert (await server.status())["leases"] == 3
    client.kill()
    await client.wait()
    await server.settled()
    server.child.kill()
