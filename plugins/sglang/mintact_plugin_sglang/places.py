"""Places of workers: where one is launched or found, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import WeightsRef
from mintact_plugin_sglang.servers import EmbeddedServer, SGLangServer, Worker, launch_worker

_HEALTH_SECONDS = 10.0


class Place(Protocol):
    """Where a worker is, one after the other.

    Attributes:
        url: of the present worker, "" while there is none.
        foreign: it was started by others: what it serves is not known from its version.
    """

    url: str
    foreign: bool

    async def open(self, weights: WeightsRef) -> None:
        """Have a worker that answers, or raise ModelServerError."""
        ...

    def ended(self) -> bool:
        """Whether the worker's process is known to be gone."""
        ...

    async def close(self) -> None:
        """Stop the worker, if it is ours."""
        ...


@dataclass(eq=False)
class Launched:
    """A worker launched on this host, and launched again when it is gone.

    Attributes:
        server: which kind, and how.
        index: among the workers of this host.
        log: file for its output.
        mark: of its processes.
        deadline: seconds until it must answer.
    """

    server: SGLangServer | EmbeddedServer
    index: int
    log: Path
    mark: str
    deadline: float
    url: str = ""
    foreign: bool = field(default=False, init=False)
    worker: Worker | None = None

    async def open(self, weights: WeightsRef) -> None:
        """Launch it with these weights."""
        self.worker = await launch_worker(
            self.server,
            weights,
            index=self.index,
            log=self.log,
            mark=self.mark,
            deadline=self.deadline,
        )
        self.url = self.worker.url

    def ended(self) -> bool:
        """Whether its process is gone."""
        return self.worker is None or not self.worker.child.alive()

    async def close(self) -> None:
        """Stop its processes."""
        worker, self.worker, self.url = self.worker, None, ""
        if worker is not None:
            await worker.child.stop()


@dataclass(eq=False)
class Attached:
    """A worker that others start and stop, at a fixed address.

    Attributes:
        url: its base URL.
        http: for asking whether it is there.
    """

    url: str
    http: httpx.AsyncClient
    foreign: bool = field(default=True, init=False)

    async def open(self, weights: WeightsRef) -> None:
        """See that it answers."""
        if not await answers(self.url, self.http):
            raise ModelServerError("not healthy", kind="unreachable", where=self.url)

    def ended(self) -> bool:
        """Never known from here."""
        return False

    async def close(self) -> None:
        """It is not ours to stop."""


async def answers(url: str, http: httpx.AsyncClient) -> bool:
    """Whether a worker says that it is healthy; raises ModelServerError where nobody listens."""
    try:
        async with asyncio.timeout(_HEALTH_SECONDS):
            return (await http.get(f"{url}/health")).status_code == 200
    except httpx.ConnectError as error:
        raise ModelServerError(str(error), kind="unreachable", where=url) from error
    except (TimeoutError, httpx.TransportError):
        return False


async def until_gone(
    place: Place,
    http: httpx.AsyncClient,
    *,
    every: float,
    busy: Callable[[], bool],
    serves: Callable[[], bool],
) -> None:
    """Return when a worker is gone: its process, whoever listened, its health, or its work.

    Args:
        place: of the worker.
        http: for asking it.
        every: seconds between two questions; three in a row without a good answer are a sickness.
        busy: says whether weights move: a worker may be deaf meanwhile.
        serves: says whether it takes work still.
    """
    loop = asyncio.get_running_loop()
    misses, ask_at = 0, loop.time() + every
    while misses < 3:
        await asyncio.sleep(min(0.1, every))
        if place.ended() or not serves():
            return
        if loop.time() < ask_at:
            continue
        try:
            healthy = await answers(place.url, http)
        except ModelServerError:
            return
        misses = 0 if healthy or busy() else misses + 1
        ask_at = loop.time() + every
