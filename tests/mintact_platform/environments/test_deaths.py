import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from mintact_platform import processes
from mintact_platform.environments.server.catalogue import Resolved
from mintact_platform.environments.server.containment import Containment
from mintact_platform.environments.server.hosting import Kind
from mintact_platform.environments.server.workers import Workers
from mintact_platform.errors import MintactError

COUNT = {"name": "count", "arguments": {}}
BROWSER = {"name": "browser", "arguments": {}}


async def reset(lease, task):
    return await lease.reset(episode="e", task=task, seed=0, deadline=60)


async def nothing_left(server, *folders):
    """Wait until no process and no directory of the server is left."""
    async with asyncio.timeout(60):
        while processes.marked(server.mark) or any(map(os.path.exists, folders)):
            await asyncio.sleep(0.05)


async def littered(server, task):
    """A server with a worker that started a browser and hangs, and the folder it works in."""
    lease = await server.lease("trial_envs:Counter")
    folder = Path((await reset(lease, task)).text.partition(" in ")[2])
    await lease.step(step=0, action=BROWSER, deadline=60)
    hanging = asyncio.create_task(
        lease.step(step=1, action={"name": "spin", "arguments": {}}, deadline=60)
    )
    return lease, hanging, folder.parent.parent


async def gone(lease, hanging):
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    await lease.release(deadline=1)


@pytest.mark.parametrize("how", ["killed", "lifeline", "terminated"])
async def test_no_worker_browser_or_directory_survives_the_server(start_server, task, how):
    server = await start_server()
    lease, hanging, folder = await littered(server, task)
    assert len(processes.marked(server.mark)) >= 3
    assert folder.is_dir()
    if how == "lifeline":
        server.child.detach()
    else:
        number = signal.SIGKILL if how == "killed" else signal.SIGTERM
        os.kill(server.child.process.pid, number)
    await asyncio.to_thread(server.child.process.wait, 60)
    await nothing_left(server, folder)
    await gone(lease, hanging)


async def test_a_released_lease_leaves_no_process_and_no_directory(start_server, task):
    server = await start_server()
    lease = await server.lease("trial_envs:Counter")
    folder = (await reset(lease, task)).text.partition(" in ")[2]
    await lease.step(step=0, action=BROWSER, deadline=60)
    await lease.release(deadline=60)
    assert processes.marked(server.mark) == [server.child.process.pid]
    assert not os.path.exists(folder)
    await lease.release()
    server.child.kill()


async def test_who_waits_for_a_worker_that_is_killed_while_it_starts_is_told_of_a_death(tmp_path):
    workers = Workers(
        tmp_path, tmp_path / "logs", f"starts-{os.getpid()}", lambda worker: None, Containment()
    )
    wanted = Resolved(Kind("trial_envs:Shared", sys.executable), 3, {})
    waiting = [asyncio.create_task(workers.place(wanted, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    (worker,) = workers._workers.values()
    await workers.kill(worker)
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in ended] == [MintactError] * 3
    await workers.close()


class CancelAt:
    """Awaits a coroutine and cancels its task at the n-th point where it gives up control."""

    def __init__(self, work, n):
        self.work, self.n = work, n
        self.points = 0

    def __await__(self):
        steps = self.work.__await__()
        try:
            waited = next(steps)
            while True:
                self.points += 1
                if self.points == self.n:
                    asyncio.current_task().cancel()
                try:
                    sent = yield waited
                except BaseException as error:
                    waited = steps.throw(error)
                else:
                    waited = steps.send(sent)
        except StopIteration as end:
            return end.value


@pytest.fixture
def threads_begun(monkeypatch):
    """The threads that a test begins itself."""
    begun, start = [], threading.Thread.start

    def noted(thread):
        if threading.current_thread() is threading.main_thread():
            begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return begun


@pytest.mark.parametrize(("transport", "points"), [("http", 15), ("stream", 6)])
async def test_an_episode_cancelled_at_any_point_leaves_no_lease_task_or_socket(
    start_server, task, transport, points, threads_begun
):
    # a server of its own, whose leases and sockets are this test's; one lease keeps the worker
    server = await start_server()
    keeper = await server.lease(transport="http", ttl=600)

    async def episode():
        lease = await server.lease(transport=transport)
        try:
            await reset(lease, task)
            await lease.step(step=0, action=COUNT, deadline=60)
            await lease.evaluate(deadline=60)
        finally:
            await lease.release(deadline=60)

    async def run(n):
        await CancelAt(episode(), n)

    def sockets():
        ends = [socket.raddr for socket in psutil.Process().net_connections("tcp")]
        return sum(bool(end) and server.url.endswith(f":{end.port}") for end in ends)

    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:

        async def leases():
            return (await http.get("/v1/environments")).json()["leases"]

        before, ours = await leases(), sockets()
        n, cancelled = 1, True
        while cancelled:
            work = asyncio.create_task(run(n))
            await asyncio.wait([work])
            cancelled = work.cancelled()
            assert cancelled or work.exception() is None
            assert await leases() == before, f"a lease leaked at point {n}"
            assert asyncio.all_tasks() == {asyncio.current_task()}, f"a task leaked at point {n}"
            assert sockets() <= ours, f"a socket leaked at point {n}"
            n += 1
    assert n > points
    # the loop's own pool may have grown meanwhile, not with the number of points
    begun = [thread.name for thread in threads_begun if thread.is_alive()]
    assert [name for name in begun if not name.startswith("asyncio_")] == []
    await keeper.release()
    server.child.kill()
