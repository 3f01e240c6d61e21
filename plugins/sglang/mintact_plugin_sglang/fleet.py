"""The workers of a deployment over time: who takes work, who is gone, who comes back.

A worker takes work only after it can do what is needed and serves the current weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import httpx

from mintact_platform import processes
from mintact_platform.errors import MintactError, ModelServerError
from mintact_platform.models.client import ModelServers
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.models.workers import Pause
from mintact_plugin_sglang.capabilities import Capabilities, detect
from mintact_plugin_sglang.places import Attached, Place, answers, until_gone
from mintact_plugin_sglang.router import Router

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

log = logging.getLogger(__name__)


class Fleet:
    """Keeps workers at their places, and the router and the client informed of them.

    Args:
        servers: the client; its workers are those that take work.
        router: in front of them, None where the one worker is asked directly.
        open_router: launches one like it, None where the router is not ours.
        http: for questions to workers.
        needs: routes that a worker must have.
        every: seconds between two looks at a worker's health.
        deadline: seconds until a router must hold a worker for healthy, or any worker take work.
        joined: told what a worker can do before weights are brought to it.
    """

    def __init__(
        self,
        servers: ModelServers,
        router: Router | None,
        *,
        open_router: Callable[[Sequence[str]], Awaitable[Router]] | None,
        http: httpx.AsyncClient,
        needs: Sequence[str],
        every: float,
        deadline: float,
        joined: Callable[[str, Capabilities], None],
    ) -> None:
        self.servers, self.router = servers, router
        self.capabilities: dict[str, Capabilities] = {}
        self.changes = 0
        """How often a worker or the router came or went."""
        self.trouble = ""
        """What last went wrong with a worker or the router."""
        self._open_router, self._http, self._needs = open_router, http, needs
        self._every, self._deadline, self._joined = every, deadline, joined
        self._places: list[Place] = []
        self._in_service: dict[Place, str] = {}
        self._some = asyncio.Event()
        # joins, exits and updates one at a time
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, places: Sequence[Place], *, discover: bool = False) -> None:
        """Open all places and keep them.

        Args:
            places: one a worker.
            discover: look for workers that others add to the router.

        Raises:
            ModelServerError: of the first worker that does not come up.
        """
        self._places += places
        opening = [asyncio.create_task(self._open(place)) for place in places]
        try:
            await asyncio.gather(*opening)
        except BaseException:
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        for place in places:
            self._own(self._keep(place))
        if self._open_router is not None:
            self._own(self._keep_router(self._open_router))
        if discover:
            self._own(self._discover())

    async def serving(self) -> ModelServers:
        """The client, once a worker takes work.

        Raises:
            ModelServerError: none did in time; what went wrong last is told.
        """
        try:
            async with asyncio.timeout(self._deadline):
                await self._some.wait()
        except TimeoutError:
            raise ModelServerError(
                f"no worker took work within {self._deadline:g} s; {self.trouble}".rstrip("; "),
                kind="unreachable",
                where="sglang engine",
            ) from None
        return self.servers

    async def update(self, weights: WeightsRef, *, pause: Pause) -> None:
        """Serve these weights on every worker that lives; those to come get them at their start.

        Raises:
            ModelServerError: the old ones are served.
        """
        for _ in range(1 + len(self._places)):
            await self.serving()
            async with self._changing:
                await self._take_out_dead()
                if not self._in_service:
                    continue
                try:
                    await self.servers.update(weights, pause=pause)
                    return
                except ModelServerError:
                    if not await self._take_out_dead():
                        raise
        raise ModelServerError(
            f"no worker lived long enough to take weights {weights.version}; {self.trouble}",
            kind="unreachable",
            where="weight update",
        )

    async def healthy(self) -> bool:
        """Whether every place has a worker that serves the current weights."""
        async with self._changing:
            full = len(self._in_service) == len(self._places)
            return full and await self.servers.healthy()

    async def close(self) -> None:
        """Stop looking after the places, and stop what was launched."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closing = [place.close() for place in self._places]
        if self.router is not None:
            closing.append(self.router.aclose())
        await asyncio.gather(*closing, return_exceptions=True)

    # ---- a worker --------------------------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        while True:
            if place in self._in_service:
                await until_gone(
                    place,
                    self._http,
                    every=self._every,
                    busy=self._changing.locked,
                    serves=lambda: place in self._in_service,
                )
                async with self._changing:
                    await self._take_out(place, "is gone")
            await self._reopen(place)

    async def _reopen(self, place: Place) -> None:
        """Try until it is there again, at growing intervals."""
        pause = min(_SHORTEST_PAUSE, self._every)
        while True:
            try:
                await processes.finish(place.close())
                await self._open(place)
                return
            except MintactError as error:
                self._note(str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _open(self, place: Place) -> None:
        weights = self.servers.weights
        if weights is None:
            raise ModelServerError("no weights to serve", where="sglang engine")
        await place.open(weights)
        url = place.url
        able = await detect(url, self._http, needs=self._needs)
        self._joined(url, able)
        async with self._changing:
            # weights may have moved on while it was starting
            await self.servers.workers.catch_up(url, anyway=place.foreign)
            if self.router is None:
                self.servers.redirect(url)
            elif not self.router.ended():
                # one that is launched later is told of all workers that take work
                await self.router.add_worker(url, deadline=self._deadline)
            self.capabilities[url] = able
            self._in_service[place] = url
            self._changed()

    async def _take_out_dead(self) -> bool:
        """Take out workers that nobody reaches any more; whether there were any."""
        found = False
        for place in list(self._in_service):
            if place.ended() or not await self._reached(place):
                await self._take_out(place, "is gone")
                found = True
        return found

    async def _take_out(self, place: Place, why: str) -> None:
        url = self._in_service.pop(place, None)
        if url is None:
            return
        self.capabilities.pop(url, None)
        self._changed()
        self._note(f"worker {url} {why}")
        if self.router is not None:
            with contextlib.suppress(ModelServerError):
                await self.router.remove_worker(url)

    async def _reached(self, place: Place) -> bool:
        try:
            return await answers(place.url, self._http)
        except ModelServerError:
            return False

    # ---- the router ------------------------------------------------------------------------------

    def lost(self) -> bool:
        """Whether the router that we launched is gone; if so, requests wait for the next one."""
        gone = self.router is not None and self.router.ended()
        if gone and self._some.is_set():
            self._note("sglang-router is gone")
            self._changed()
        return gone

    async def _keep_router(self, launch: Callable[[Sequence[str]], Awaitable[Router]]) -> None:
        pause = _SHORTEST_PAUSE
        while True:
            await asyncio.sleep(min(0.1, self._every))
            router = self.router
            if router is None or not self.lost():
                pause = _SHORTEST_PAUSE
                continue
            try:
                async with self._changing:
                    await processes.finish(router.aclose())
                    self.router = await launch(list(self._in_service.values()))
                    self.servers.redirect(self.router.url)
                    self._changed()
            except MintactError as error:
                self._note(str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _discover(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            with contextlib.suppress(ModelServerError):
                await self.look()

    async def look(self) -> None:
        """Take notice of workers that others added to the router; they get the current weights.

        Raises:
            ModelServerError: the router does not answer.
        """
        if self.router is None:
            return
        known = {place.url for place in self._places}
        urls = [url for url in await self.router.worker_states() if url not in known]
        found = [Attached(url, self._http) for url in urls]
        self._places += found
        opened = await asyncio.gather(*map(self._open, found), return_exceptions=True)
        for place, error in zip(found, opened, strict=True):
            if error is not None:
                self._note(str(error))
            self._own(self._keep(place))

    # ---- shared ----------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.changes += 1
        self.servers.workers.urls = tuple(self._in_service.values())
        if self._in_service and not (self.router is not None and self.router.ended()):
            self._some.set()
        else:
            self._some.clear()

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._note(f"nobody looks after a worker any more: {error!r}")

    def _note(self, trouble: str) -> None:
        self.trouble = trouble
        log.warning("%s", trouble)
