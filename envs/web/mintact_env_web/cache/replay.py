"""A recorded site as the source of an episode: every request is answered from the recording."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from mintact_env_web.cache import fulfil
from mintact_env_web.cache.checks import judge
from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.sockets import Sockets
from mintact_env_web.cache.store import META, Bodies, Site, load
from mintact_env_web.cache.tape import Answer, Index, Tape
from mintact_env_web.cache.world import stage_script
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Route
    from playwright.async_api import Request as BrowserRequest

log = logging.getLogger(__name__)

LISTED = 20
"""Misses and nearest matches that are told in full; all are counted."""
_RECENT_SITES = 8


@dataclass
class Counts:
    """What became of an episode's requests.

    Attributes:
        recorded: answered by an equal request.
        nearest: answered by a similar one.
        stubs: answered with nothing.
        misses: not answered.
        similar: the first nearest matches: the request, the recorded one, the score.
        missed: the first misses, `METHOD url`.
        documents: misses that an episode cannot go on without.
    """

    recorded: int = 0
    nearest: int = 0
    stubs: int = 0
    misses: int = 0
    similar: list[tuple[str, str, float]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "recorded": self.recorded,
            "nearest": self.nearest,
            "stubs": self.stubs,
            "misses": self.misses,
            "similar": [list(one) for one in self.similar],
            "missed": list(self.missed),
        }


@dataclass(frozen=True)
class Loaded:
    """A site, ready to be replayed any number of times.

    Attributes:
        site: as recorded.
        index: of its entries.
        bodies: of its responses.
        script: for every page.
    """

    site: Site
    index: Index
    bodies: Bodies
    script: str


class ReplaySource:
    """Episodes on recorded sites; nothing they ask for reaches a network.

    Args:
        sites: directory of recorded sites; `task.params["site"]` names one below it.

    Attributes:
        failures: documents that the recording lacks.
        counts: of the running episode.
        requests: of the running episode, in order.
    """

    def __init__(self, sites: Path) -> None:
        self._sites = sites
        self.failures: Sequence[str] = ()
        self.counts = Counts()
        self.requests: list[Request] = []
        self._loaded: Loaded | None = None
        self._tape: Tape | None = None
        self._sockets: Sockets | None = None

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """Put the task's site between the context and a network that is switched off."""
        directory = site_directory(self._sites, task)
        loaded = await asyncio.to_thread(_recent, directory, _stamp(directory))
        self._loaded = loaded
        self.counts, self.requests = Counts(), []
        self.failures = self.counts.documents
        self._tape = Tape(loaded.index)
        self._sockets = Sockets(loaded.site.sockets, loaded.site.rules)
        await context.set_offline(True)
        await context.route("**/*", self._handle)
        pattern = self._sockets.pattern
        if pattern is not None:
            await context.route_web_socket(pattern, self._sockets.answer)
        # after the driver's own scripts, which it changes
        await context.add_init_script(loaded.script)
        return loaded.site.start

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """The task's check; None when it has none."""
        wanted = task.params.get("check")
        if wanted is None:
            return None
        text = await page.inner_text("body") if "text" in wanted else ""
        check = judge(wanted, answer=answer, url=page.url, requests=self.requests, text=text)
        details = {**check.details, "replay": self.counts.to_json()}
        return StateCheck(check.success, check.score, details)

    async def close(self) -> None:
        """The recording is shared with other episodes; nothing is held."""
        self._loaded = self._tape = None

    async def _handle(self, route: Route) -> None:
        from playwright.async_api import Error

        try:
            try:
                await self._answer(route)
            except ConfigurationError as error:
                # a body is missing on the disk: nobody would answer the page
                self.counts.documents.append(str(error))
                await route.abort()
        except Error:
            # the page left, or the episode ended, before the answer came
            return

    async def _answer(self, route: Route) -> None:
        tape, asked = self._tape, route.request
        if tape is None:
            await route.abort()
            return
        request = await read_request(asked)
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            await route.fulfill(**_preflight(request))
            return
        self.requests.append(request)
        navigates = asked.is_navigation_request()
        answer = tape.answer(request) if navigates else tape.follow(request)
        self._count(answer, request, asked, navigates)
        fulfilment = await self._fulfilment(answer, request, navigates)
        if fulfilment is None:
            await route.abort("failed")
        else:
            await route.fulfill(**fulfilment)

    async def _fulfilment(
        self, answer: Answer, request: Request, navigates: bool
    ) -> fulfil.Fulfilment | None:
        """What the browser gets; None for a failure of the network."""
        if answer.how == "miss":
            return fulfil.missing()
        if answer.how == "stub":
            return fulfil.empty(request.kind)
        response = answer.entries[0].response
        if response is None or (not navigates and _forbidden(request, answer)):
            return None
        if navigates and response.redirect is not None:
            return _onward(request, answer)
        assert self._loaded is not None
        names = [entry.response.body for entry in answer.entries if entry.response is not None]
        bodies = await asyncio.to_thread(lambda: [self._body(name) for name in names])
        asked_range = request.headers.get("range")
        return fulfil.recorded(answer.entries, bodies, asked_range, answer.cookies)

    def _body(self, name: str | None) -> bytes:
        assert self._loaded is not None
        return self._loaded.bodies.get(name)

    def _count(
        self, answer: Answer, request: Request, asked: BrowserRequest, navigates: bool
    ) -> None:
        counts, line = self.counts, f"{request.method} {request.url}"
        if answer.how == "recorded":
            counts.recorded += 1
        elif answer.how == "stub":
            counts.stubs += 1
        elif answer.how == "nearest":
            counts.nearest += 1
            similar = answer.entries[0].request
            log.warning("%s answered by %s, score %.2f", line, similar.url, answer.score)
            if len(counts.similar) < LISTED:
                counts.similar.append((line, similar.url, round(answer.score, 3)))
        else:
            counts.misses += 1
            log.warning("%s is not in the recording", line)
            if len(counts.missed) < LISTED:
                counts.missed.append(line)
            if navigates and self._matters(asked):
                counts.documents.append(f"the recording has no document for {line}")

    def _matters(self, asked: BrowserRequest) -> bool:
        """Whether the agent sees that a document is missing; frames of other sites may fail."""
        assert self._loaded is not None
        own = urlsplit(self._loaded.site.start).hostname
        return asked.frame.parent_frame is None or urlsplit(asked.url).hostname == own


async def read_request(asked: BrowserRequest) -> Request:
    """A browser's request in our terms."""
    headers = {name.lower(): value for name, value in (await asked.all_headers()).items()}
    url = asked.url.partition("#")[0]
    return Request(asked.method, url, headers, asked.post_data_buffer, asked.resource_type)


def site_directory(sites: Path, task: Task) -> Path:
    """Where the task's site lies.

    Raises:
        ConfigurationError: the task names none, or one outside `sites`.
    """
    name = task.params.get("site")
    where = f"task {task.id}"
    if not isinstance(name, str):
        raise ConfigurationError("the task has no params.site", where=where)
    directory = (sites / name).resolve()
    if not directory.is_relative_to(sites.resolve()):
        raise ConfigurationError(f"site {name!r} lies outside {str(sites)!r}", where=where)
    if not (directory / META).is_file():
        raise ConfigurationError(
            f"no recorded site at {str(directory)!r}",
            where=where,
            next="give `sites` as the directory that the task set was read from",
        )
    return directory


def prepare(directory: Path) -> Loaded:
    """Read and index a site."""
    site = load(directory)
    index = Index(site.entries, site.rules)
    return Loaded(site, index, Bodies(directory), stage_script(site))


def _stamp(directory: Path) -> tuple[int, ...]:
    names = (META, "entries.jsonl", "sockets.jsonl")
    return tuple((directory / n).stat().st_mtime_ns for n in names if (directory / n).exists())


@lru_cache(_RECENT_SITES)
def _recent(directory: Path, stamp: tuple[int, ...]) -> Loaded:
    """A site, kept for the episodes of the same group until it is recorded anew."""
    return prepare(directory)


def _onward(request: Request, answer: Answer) -> fulfil.Fulfilment:
    response = answer.entries[0].response
    assert response is not None
    location = response.redirect or ""
    cookies = [value for name, value in response.headers if name == "set-cookie"]
    if response.status in (307, 308) and request.method == "POST":
        kind = request.headers.get("content-type", "")
        form = fulfil.again(urljoin(request.url, location), request.body or b"", kind)
        if form is not None:
            return form
    return fulfil.moved(request.url, location, cookies)


def _forbidden(request: Request, answer: Answer) -> bool:
    """Whether the browser refused the recorded response to the page: of another origin, no CORS.

    The driver adds what is missing to every response that it fulfils.
    """
    origin = request.headers.get("origin")
    response = answer.entries[0].response
    if response is None or request.kind not in ("fetch", "xhr") or origin is None:
        return False
    parts = urlsplit(request.url)
    foreign = origin.lower() != f"{parts.scheme}://{parts.netloc}".lower()
    return foreign and response.header("access-control-allow-origin") is None


def _preflight(request: Request) -> fulfil.Fulfilment:
    wanted = request.headers
    return {
        "status": 204,
        "headers": {
            "access-control-allow-origin": wanted.get("origin", "*"),
            "access-control-allow-methods": wanted["access-control-request-method"],
            "access-control-allow-headers": wanted.get("access-control-request-headers", ""),
            "access-control-allow-credentials": "true",
        },
    }
