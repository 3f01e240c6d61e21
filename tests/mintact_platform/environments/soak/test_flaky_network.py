"""Connections that break anywhere: every step still runs exactly once, and nothing is left."""

import asyncio
import os
import random

import httpx
import pytest

from mintact_platform.environments.client.lease import Lease
from mintact_platform.records.task import Task

STEPS = 12
DEADLINE = 60.0


class Scissors:
    """A TCP relay that cuts its connections after some bytes, at once or after a silence."""

    def __init__(self, url: str, seed: int) -> None:
        self._target = (httpx.URL(url).host, httpx.URL(url).port)
        self._draw = random.Random(seed)
        self._tasks: set[asyncio.Task] = set()
        self.cuts = 0

    async def __aenter__(self) -> "Scissors":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader, writer) -> None:
        self._tasks.add(asyncio.create_task(self._relay(reader, writer)))

    async def _relay(self, reader, writer) -> None:
        try:
            await self._between(reader, writer)
        finally:
            writer.transport.abort()

    async def _between(self, reader, writer) -> None:
        back, onward = await asyncio.open_connection(*self._target)
        upward = self._draw.random() < 0.5
        left = int(self._draw.expovariate(1 / 1500))
        silence = self._draw.choice([0.0, 0.0, 0.2])
        try:
            await asyncio.gather(
                self._pump(reader, onward, left if upward else None, silence),
                self._pump(back, writer, None if upward else left, silence),
            )
        except (EOFError, ConnectionError):
            pass
        finally:
            onward.transport.abort()

    async def _pump(self, reader, writer, left, silence) -> None:
        while data := await reader.read(65536):
            if left is not None and len(data) > left:
                writer.write(data[:left])
                await writer.drain()
                await asyncio.sleep(silence)
                self.cuts += 1
                raise EOFError
            left = left if left is None else left - len(data)
            writer.write(data)
            await writer.drain()
        raise EOFError


@pytest.fixture(scope="module")
def server(watched_server):
    server = asyncio.run(watched_server())
    yield server
    server.child.kill()


async def episode(url, transport, journal) -> None:
    """A whole life of a lease; every observation is the one its step made."""
    lease = await Lease.create(
        url,
        environment="soak_envs:Light",
        params={"journal": str(journal)},
        key=f"flaky-{os.urandom(8).hex()}",
        ttl=20.0,
        deadline=DEADLINE,
        transport=transport,
    )
    try:
        task = Task("t", "count", "web")
        first = await lease.reset(episode="e", task=task, seed=0, deadline=DEADLINE)
        assert first.text.startswith("0 in")
        for step in range(STEPS):
            action = {"name": "count", "arguments": {"tag": step}}
            seen = await lease.step(step=step, action=action, deadline=DEADLINE)
            assert seen.text.startswith(f"{step + 1} in")
        check = await lease.evaluate(deadline=DEADLINE)
        assert check.details["count"] == STEPS
    finally:
        await lease.release(deadline=DEADLINE)


@pytest.mark.parametrize("transport", ["http", "auto"])
async def test_a_step_runs_once_however_often_the_connection_breaks(server, transport, tmp_path):
    cuts = 0

    async def one(seed):
        nonlocal cuts
        journal = tmp_path / f"{seed}.txt"
        async with Scissors(server.url, seed) as scissors:
            await episode(scissors.url, transport, journal)
            cuts += scissors.cuts
        wanted = ["reset t", *(f"step {step}" for step in range(STEPS))]
        assert journal.read_text().splitlines() == wanted

    await asyncio.gather(*map(one, range(16)))
    assert cuts > 10
    await server.settled()


async def test_many_leases_share_a_breaking_stream_and_each_step_runs_once(server, tmp_path):
    async with Scissors(server.url, 99) as scissors:
        journals = [tmp_path / f"{number}.txt" for number in range(8)]
        await asyncio.gather(*(episode(scissors.url, "auto", one) for one in journals))
        assert scissors.cuts > 0
    for journal in journals:
        lines = journal.read_text().splitlines()
        assert lines == ["reset t", *(f"step {step}" for step in range(STEPS))]
    await server.settled()
