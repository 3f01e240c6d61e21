"""An environment server of this checkout, and leases of it."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import driving

from mintact_platform import processes
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.client.transport import TransportName
from mintact_platform.records.task import Task

FOLDER = Path(__file__).parent
TASK = Task("echo", "echo what you are told", "tools", seed=1)


@asynccontextmanager
async def held(
    url: str, environment: str, count: int, transport: TransportName = "auto"
) -> AsyncIterator[list[Lease]]:
    """Leases with an episode each, made at once and given back at once."""
    leases = await asyncio.gather(*(create(url, environment, transport) for _ in range(count)))
    try:
        await asyncio.gather(*(reset(lease) for lease in leases))
        yield leases
    finally:
        # a hung one is not waited for
        await asyncio.gather(*(lease.release(deadline=2.0) for lease in leases))


async def reset(lease: Lease) -> None:
    """Start a new episode."""
    await lease.reset(episode=secrets.token_hex(8), task=TASK, seed=1, deadline=60)


def stepper(lease: Lease) -> driving.Step:
    """The lease's steps as the drive wants them; the episode must be new."""
    numbers = itertools.count()

    async def step(number: int, image: bool) -> None:
        action = {"name": "echo", "arguments": {"number": number, "image": image}}
        seen = await lease.step(step=next(numbers), action=action, deadline=60)
        assert seen.text == str(number)
        assert not image or len(seen.images[0].data) > 80_000

    return step


async def create(url: str, environment: str, transport: TransportName = "auto") -> Lease:
    """A lease that nobody reaps during the benchmark."""
    return await Lease.create(
        url,
        environment=environment,
        key=secrets.token_hex(8),
        ttl=3600,
        image_format="jpeg",
        deadline=120,
        transport=transport,
    )


def importable() -> None:
    """Let every process started from now on import this folder's modules by their names."""
    paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@asynccontextmanager
async def server(logs: Path, **spec: Any) -> AsyncIterator[processes.Child]:
    """A running environment server; `ready["url"]` is its URL.

    Its workers find the environment by `PYTHONPATH`, see `importable`.
    """
    mark = f"benchmark-{os.getpid()}-{secrets.token_hex(4)}"
    child = await processes.spawn(
        [sys.executable, "-m", "mintact_platform.environments.server.app"],
        {"logs": str(logs), "capacity": 1024, **spec},
        log=logs / f"{mark}.log",
        mark=mark,
        deadline=60,
    )
    try:
        yield child
    finally:
        await child.stop()
