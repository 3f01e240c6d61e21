import asyncio
import os
import random
from pathlib import Path

import httpx
import pytest

from mintact_platform import processes
from mintact_platform.errors import EnvironmentFailure

COUNT = {"name": "count", "arguments": {}}
BAD = ("crash", "hang", "raise", "garbage", "client death", "cancelled")


async def cycle(server, task, kind, bad, folders):
    """One life of a lease; `bad` is what goes wrong in it, if anything."""
    lease = await server.lease(kind, ttl=10.0 if bad == "client death" else 60.0)
    try:
        seen = await lease.reset(episode="e", task=task, seed=0, deadline=60)
        folders.add(Path(seen.text.partition(" in ")[2]))
        await lease.step(step=0, action=COUNT, deadline=60)
        if bad == "client death":
            return
        if bad == "cancelled":
            async with asyncio.timeout(0.01):
                await lease.step(step=1, action={"name": "hang", "arguments": {}}, deadline=1)
        elif bad:
            arguments = {"which": "nan"} if bad == "garbage" else {}
            action = {"name": bad, "arguments": arguments}
            await lease.step(step=1, action=action, deadline=1 if bad == "hang" else 60)
        await lease.evaluate(deadline=60)
    finally:
        if bad == "client death":
            await lease._connection.close()
        else:
            await lease.release()


@pytest.mark.slow
async def test_many_lives_with_kills_hangs_and_client_deaths_leave_nothing(start_server, task):
    server = await start_server()
    pid, choice = server.child.process.pid, random.Random(0)
    limit, folders, cut_short = asyncio.Semaphore(8), set(), []

    async def one():
        bad = choice.choice(BAD) if choice.random() < 0.2 else None
        kind = choice.choice(["trial_envs:Counter", "trial_envs:Siblings"])
        async with limit:
            try:
                await cycle(server, task, kind, bad, folders)
            except TimeoutError:
                return
            except EnvironmentFailure as end:
                # a sibling took the worker along before this one's first episode
                if end.kind == "crash" and end.phase in ("create", "reset"):
                    cut_short.append(kind)

    await one()
    sockets = len(os.listdir(f"/proc/{pid}/fd"))
    await asyncio.gather(*(one() for _ in range(300)))
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        async with asyncio.timeout(60):
            while (await http.get("/v1/environments")).json()["leases"]:
                await asyncio.sleep(0.1)
            # a worker is counted until its processes and its directory are gone
            while "mintact_environment_workers 0\n" not in (await http.get("/metrics")).text:
                await asyncio.sleep(0.1)
    assert processes.marked(server.mark) == [pid]
    assert set(cut_short) <= {"trial_envs:Siblings"}
    assert len(folders) + len(cut_short) == 301
    assert not any(folder.parent.exists() for folder in folders)
    assert len(os.listdir(f"/proc/{pid}/fd")) <= sockets + 2
    server.child.kill()
