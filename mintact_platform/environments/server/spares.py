"""Instances that stand ready for requests like those that came before."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mintact_platform.environments.protocol.messages import CreateRequest
from mintact_platform.environments.server.calls import Reply
from mintact_platform.environments.server.hosting import Placed, WorkerProcess
from mintact_platform.environments.server.quarantine import Key

IDLE = 600.0
"""Seconds without a request after which the spares of a shape are closed."""
_BACKOFF = (0.25, 60.0)
_SHAPES = 64


class Shape(NamedTuple):
    """What two requests must agree in to be served by the same instance."""

    key: Key
    image_format: str
    requires: tuple[str, ...] = ()


@dataclass(eq=False)
class _Shelf:
    """Spares of one shape.

    Attributes:
        request: the last one of this shape.
        asked_at: moment of it.
        wanted: how many should stand ready.
        ready: those that do.
        failures: spares in a row that did not start or died idle.
        filling: starts the missing ones.
    """

    request: CreateRequest
    asked_at: float
    wanted: int
    ready: deque[Placed] = field(default_factory=deque)
    failures: int = 0
    filling: asyncio.Task[None] | None = None


class Spares:
    """The spare instances of a server.

    Args:
        wanted: how many of each shape, for every environment or by its name.
        boot: starts an instance.
        end: gives one back.
        room: instances that may exist beside the leases.
        own: runs a task that the server's close ends.
    """

    def __init__(
        self,
        wanted: int | Mapping[str, int],
        boot: Callable[[CreateRequest], Awaitable[Placed | Reply]],
        end: Callable[[Placed], Coroutine[Any, Any, None]],
        room: Callable[[], int],
        own: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._wanted = wanted
        self._boot = boot
        self._end = end
        self._room = room
        self._own = own
        self._shelves: dict[Shape, _Shelf] = {}
        self._starting: set[_Shelf] = set()

    def count(self) -> Counter[str]:
        """Ready spares by environment."""
        return Counter(
            shelf.request.environment for shelf in self._shelves.values() for _ in shelf.ready
        )

    def take(self, shape: Shape) -> Placed | None:
        """A ready instance of that shape, or None."""
        shelf = self._shelves.get(shape)
        while shelf is not None and shelf.ready:
            placed = shelf.ready.popleft()
            if not placed.worker.dead:
                shelf.failures = 0
                return placed
        return None

    def asked(self, shape: Shape, request: CreateRequest) -> None:
        """A lease of that shape was made: have spares for the next."""
        wanted = self._wanted
        if not isinstance(wanted, int):
            wanted = wanted.get(request.environment, 0)
        if wanted == 0:
            return
        shelf = self._shelves.pop(shape, None) or _Shelf(request, 0.0, wanted)
        shelf.request, shelf.asked_at = request, time.monotonic()
        self._shelves[shape] = shelf
        if len(self._shelves) > _SHAPES:
            self._clear(next(iter(self._shelves)))
        self._fill(shelf)

    def make_room(self) -> None:
        """End spares, the least recently asked for first, until leases fit beside the rest."""
        for shelf in list(self._shelves.values()):
            while shelf.ready and self._free() < 0:
                self._own(self._end(shelf.ready.popleft()))
            if shelf.filling is not None and self._free() < 0:
                shelf.filling.cancel()
                self._starting.discard(shelf)

    def lost(self, worker: WorkerProcess) -> None:
        """A worker died, with its spares."""
        for shelf in self._shelves.values():
            alive = [placed for placed in shelf.ready if placed.worker is not worker]
            shelf.failures += len(alive) < len(shelf.ready)
            shelf.ready = deque(alive)

    def tend(self, now: float) -> None:
        """Close spares that nobody asks for, and start missing ones."""
        for shape, shelf in list(self._shelves.items()):
            if now - shelf.asked_at > IDLE:
                self._clear(shape)
            else:
                self._fill(shelf)

    def _free(self) -> int:
        ready = sum(len(shelf.ready) for shelf in self._shelves.values())
        return self._room() - ready - len(self._starting)

    def _clear(self, shape: Shape) -> None:
        shelf = self._shelves.pop(shape)
        if shelf.filling is not None:
            shelf.filling.cancel()
        for placed in shelf.ready:
            self._own(self._end(placed))
        shelf.ready.clear()

    def _fill(self, shelf: _Shelf) -> None:
        missing = len(shelf.ready) < shelf.wanted
        if missing and shelf.filling is None and self._free() > 0:
            shelf.filling = self._own(self._start_missing(shelf))
            self._starting.add(shelf)
            shelf.filling.add_done_callback(lambda _: self._filled(shelf))

    def _filled(self, shelf: _Shelf) -> None:
        shelf.filling = None
        self._starting.discard(shelf)

    async def _start_missing(self, shelf: _Shelf) -> None:
        """Start one after the other, ever slower while they fail."""
        while True:
            if shelf.failures:
                await asyncio.sleep(min(_BACKOFF[0] * 2**shelf.failures, _BACKOFF[1]))
            booted = await self._boot(shelf.request)
            if isinstance(booted, Reply) or booted.worker.dead:
                shelf.failures += 1
                continue
            shelf.ready.append(booted)
            # the place of this one is taken by it; another needs another
            if len(shelf.ready) >= shelf.wanted or self._free() < 0:
                return
