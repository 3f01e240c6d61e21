"""What is not a step: acquire, recovery after a kill, a hung sibling, three hundred leases."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import driving
import httpx
import leasing
import psutil
from goals import Value

from mintact_platform.config import Deadlines
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure

Values = dict[str, Value]
"""By name, in the order of the tables."""
CRASH = {"name": "crash", "arguments": {"number": 0, "image": False}}
HANG = {"name": "hang", "arguments": {"number": 0, "image": False}}
_SIBLINGS = 8


async def acquire(logs: Path, repeats: int, quick: bool) -> Values:
    """An idle lease of a warm pool, and new leases: beside others in a worker, and from a spare."""
    idle, beside, spare = [], [], []
    async with leasing.server(logs, spares={"echo:EchoProcess": 2}) as server:
        url = server.ready["url"]
        async with _manager(PoolSpec("echo:Echo", instances=4, servers=(url,)), logs) as manager:
            for _ in range(20 * repeats):
                start = time.perf_counter()
                async with manager.acquire("pool"):
                    idle.append(time.perf_counter() - start)
                beside.append(await _creation(url, "echo:Echo"))
        # the first request of a kind tells the server what to keep ready
        await _creation(url, "echo:EchoProcess")
        for _ in range(repeats):
            await _spares(url, 2)
            spare.append(await _creation(url, "echo:EchoProcess"))
    return {
        **_spread("acquire from a warm pool", idle),
        **_spread("new lease where a worker has room", beside),
        **_spread("new lease where a spare is ready", spare),
    }


async def recovery(logs: Path, repeats: int, quick: bool) -> Values:
    """From the crash of a worker to the next reset that works, beside one boot from nothing."""
    boots, recovered, spared = [], [], []
    spec = PoolSpec("echo:EchoProcess", instances=1)
    async with leasing.server(logs) as bare, leasing.server(logs, spares=1) as ready:
        plain, spare = (replace(spec, servers=(one.ready["url"],)) for one in (bare, ready))
        async with _manager(plain, logs) as without, _manager(spare, logs) as with_spare:
            for _ in range(repeats):
                start = time.perf_counter()
                async with leasing.held(bare.ready["url"], spec.environment, 1):
                    boots.append(time.perf_counter() - start)
                recovered.append(await _recover(without))
                await _spares(ready.ready["url"], 1)
                spared.append(await _recover(with_spare))
    return {
        "boot": _median(boots),
        "recovery": _median(recovered),
        "recovery where a spare is ready": _median(spared),
    }


async def hang(logs: Path, repeats: int, quick: bool) -> Values:
    """The 99th percentile of a step beside a hung instance, and without one, in turns."""
    seconds = 0.3 if quick else 1.5
    calm, beside = await _beside_hang(logs, "echo:EchoThread", repeats, seconds, killed=False)
    quiet, killed = await _beside_hang(logs, "echo:EchoProcess", repeats, seconds, killed=True)
    return {
        "p99 without a hang in the same worker": Value(calm),
        "p99 beside a hang in the same worker": Value(beside),
        "p99 without a hang and kill next door": Value(quiet),
        "p99 beside a hang and kill next door": Value(killed),
    }


async def crowd(logs: Path, repeats: int, quick: bool) -> Values:
    """Three hundred leases at once: how long they take to make, what they weigh, how they step."""
    count = 40 if quick else 300
    async with leasing.server(logs) as server:
        root = psutil.Process(server.process.pid)
        start = time.perf_counter()
        async with leasing.held(server.ready["url"], "echo:Echo", count) as leases:
            made = time.perf_counter() - start
            steps = [leasing.stepper(lease) for lease in leases]
            cell = driving.Cell(count, image=False, seconds=0.3 if quick else 2.0)
            figures = await driving.drive(steps, cell, root)
            processes, memory = _pss(root)
            start = time.perf_counter()
        gone = time.perf_counter() - start
    return {
        "leases at once": Value(count, "leases"),
        "all of them made and reset": Value(1e3 * made),
        "all of them given back": Value(1e3 * gone),
        "their server and workers": Value(processes, "processes"),
        "their memory (PSS)": Value(memory, "MB"),
        "their text steps": Value(figures.rate, "steps/s"),
        "p99 of their steps": Value(figures.p99),
    }


MEASURES: dict[str, Callable[[Path, int, bool], Awaitable[Values]]] = {
    "acquire": acquire,
    "recovery": recovery,
    "hang": hang,
    "crowd": crowd,
}


@asynccontextmanager
async def _manager(spec: PoolSpec, logs: Path) -> AsyncIterator[EnvironmentManager]:
    manager = EnvironmentManager(
        {"pool": spec}, deadlines=Deadlines(), log_directory=logs, incarnation=1
    )
    await manager.start()
    try:
        yield manager
    finally:
        await manager.close()


async def _creation(url: str, environment: str) -> float:
    """Seconds a new lease takes; given back at once."""
    start = time.perf_counter()
    lease = await leasing.create(url, environment)
    seconds = time.perf_counter() - start
    await lease.release()
    return seconds


async def _spares(url: str, count: int) -> None:
    """Wait until so many instances stand ready."""
    async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
        while (await client.get(f"{url}/v1/environments")).json()["spares"] < count:
            await asyncio.sleep(0.05)


async def _recover(manager: EnvironmentManager) -> float:
    """Seconds from the call that kills the worker to a reset of its replacement."""
    async with manager.acquire("pool") as lease:
        await leasing.reset(lease)
        start = time.perf_counter()
        with suppress(EnvironmentFailure):
            await lease.step(step=0, action=CRASH, deadline=30)
    while True:
        with suppress(EnvironmentFailure):
            async with manager.acquire("pool") as lease:
                await leasing.reset(lease)
                return time.perf_counter() - start


async def _beside_hang(
    logs: Path, environment: str, repeats: int, seconds: float, *, killed: bool
) -> tuple[float, float]:
    """The p99 of siblings on a calm server and beside a hung instance, medians, milliseconds.

    Either the hung instance hangs on all the while, or a new one each time is killed meanwhile.
    """
    calm, beside = [], []
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(leasing.server(logs))).ready["url"] for _ in "ab"]
        held = [leasing.held(url, environment, 2 if killed else _SIBLINGS) for url in urls]
        without, others = [await stack.enter_async_context(leases) for leases in held]
        if not killed:
            await stack.enter_async_context(_hung(urls[1], environment, 600))
        for _ in range(repeats):
            calm.append(await _p99(without, seconds))
            async with _hung(urls[1], environment, seconds / 2) if killed else nullcontext():
                beside.append(await _p99(others, seconds))
    return statistics.median(calm), statistics.median(beside)


@asynccontextmanager
async def _hung(url: str, environment: str, deadline: float) -> AsyncIterator[None]:
    """An instance that hangs until its deadline."""
    async with leasing.held(url, environment, 1) as (lease,):
        call = asyncio.create_task(lease.step(step=0, action=HANG, deadline=deadline))
        try:
            yield
        finally:
            call.cancel()
            await asyncio.wait([call])


async def _p99(leases: Sequence[Lease], seconds: float) -> float:
    for lease in leases:
        await leasing.reset(lease)
    steps = [leasing.stepper(lease) for lease in leases]
    return (await driving.drive(steps, driving.Cell(len(steps), False, seconds), None)).p99


def _pss(root: psutil.Process) -> tuple[int, float]:
    """Processes of a tree and their memory, shared pages divided among their users, in MB."""
    processes = driving.tree(root)
    return len(processes), sum(process.memory_full_info().pss for process in processes) / 1e6


def _median(seconds: Sequence[float]) -> Value:
    return Value(1e3 * statistics.median(seconds))


def _spread(name: str, seconds: Sequence[float]) -> Values:
    rare = Value(1e3 * driving.quantile(seconds, 0.99))
    return {f"{name}, p50": _median(seconds), f"{name}, p99": rare}
