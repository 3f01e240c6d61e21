"""A recording as an episode plays it: every request gets the next response recorded for it. Pure.

First an equal request is looked for, then one that is equal under the site's rules, then, above a
score, a similar one. A response is given once, in the order of the recording; the last of its
kind is given again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urljoin

from mintact_env_web.cache.exchange import Entry, Request
from mintact_env_web.cache.key import Key, key_of
from mintact_env_web.cache.nearest import nearest
from mintact_env_web.cache.ranges import covering
from mintact_env_web.cache.rules import EXACT, Rules

How = Literal["recorded", "nearest", "stub", "miss"]
MAX_HOPS = 20


class Answer(NamedTuple):
    """What a request gets.

    Attributes:
        how: where from.
        entries: a recorded exchange; several when a range needs several recorded ranges; none
            for a stub and a miss.
        score: 1 for an equal request, less for a similar one.
        cookies: `set-cookie` of the redirects on the way.
    """

    how: How
    entries: tuple[Entry, ...] = ()
    score: float = 1.0
    cookies: tuple[str, ...] = ()


class Index:
    """A recording, found by key.

    Later visits are looked at only for what the first did not ask for.

    Args:
        entries: of all visits.
        rules: of the site.
    """

    def __init__(self, entries: Sequence[Entry], rules: Rules) -> None:
        self.rules = rules
        self.entries: list[Entry] = []
        self.exact: dict[Key, list[int]] = {}
        self.loose: dict[Key, list[int]] = {}
        self.places: dict[tuple[str, str], list[Key]] = {}
        for visit in sorted({entry.visit for entry in entries}):
            self._add([entry for entry in entries if entry.visit == visit])

    def _add(self, entries: Sequence[Entry]) -> None:
        known = set(self.loose)
        answered = {key_of(e.request, EXACT) for e in entries if e.response is not None}
        for entry in entries:
            exact, loose = key_of(entry.request, EXACT), key_of(entry.request, self.rules)
            # a request that failed and was sent again succeeded in the end
            if loose in known or (entry.response is None and exact in answered):
                continue
            number = len(self.entries)
            self.entries.append(entry)
            self.exact.setdefault(exact, []).append(number)
            if loose not in self.loose:
                self.places.setdefault((loose.method, loose.place), []).append(loose)
            self.loose.setdefault(loose, []).append(number)


@dataclass
class Tape:
    """One episode's place in a recording.

    Attributes:
        index: of the recording.
        given: numbers of the entries that were given.
    """

    index: Index
    given: set[int] = field(default_factory=set)

    def answer(self, request: Request) -> Answer:
        """What the site answers, a redirect as it was recorded."""
        rules = self.index.rules
        if rules.stubbed(request) and request.kind not in ("document", "script", "stylesheet"):
            return Answer("stub")
        loose = key_of(request, rules)
        found = self._next(key_of(request, EXACT), loose)
        if found is not None:
            return Answer("recorded", (found,))
        ranged = self._range(request)
        if ranged:
            return Answer("recorded", ranged)
        if rules.stubbed(request):
            return Answer("stub")
        candidates = self.index.places.get((loose.method, loose.place), [])
        similar = nearest(loose, candidates)
        if similar is not None and similar.score >= rules.nearest:
            entry = self._take(self.index.loose[candidates[similar.place]])
            return Answer("nearest", (entry,), similar.score)
        return Answer("miss")

    def follow(self, request: Request) -> Answer:
        """What the site answers in the end, redirects followed."""
        answer, cookies = self.answer(request), []
        for _ in range(MAX_HOPS):
            response = answer.entries[0].response if answer.entries else None
            if response is None or response.redirect is None:
                break
            cookies += [value for name, value in response.headers if name == "set-cookie"]
            request = redirected(request, response.status, response.redirect)
            answer = self.answer(request)
        return answer._replace(cookies=tuple(cookies))

    def _next(self, exact: Key, loose: Key) -> Entry | None:
        for numbers in (self.index.exact.get(exact), self.index.loose.get(loose)):
            if numbers:
                return self._take(numbers)
        return None

    def _take(self, numbers: Sequence[int]) -> Entry:
        number = next((n for n in numbers if n not in self.given), numbers[-1])
        self.given.add(number)
        return self.index.entries[number]

    def _range(self, request: Request) -> tuple[Entry, ...]:
        """Recorded entries from which a range can be cut, when that range was not asked for."""
        if "range" not in request.headers:
            return ()
        headers = {name: value for name, value in request.headers.items() if name != "range"}
        whole = key_of(
            Request(request.method, request.url, headers, request.body), self.index.rules
        )
        candidates = [
            self.index.entries[number]
            for key in self.index.places.get((whole.method, whole.place), ())
            if key._replace(headers=tuple(h for h in key.headers if h[0] != "range")) == whole
            for number in self.index.loose[key]
        ]
        return covering(request.headers["range"], candidates)


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that a redirect leads to."""
    url = urljoin(request.url, location)
    keeps = status in (307, 308) or request.method in ("GET", "HEAD")
    if keeps:
        return Request(request.method, url, request.headers, request.body, request.kind)
    headers = {n: v for n, v in request.headers.items() if not n.startswith("content-")}
    return Request("GET", url, headers, None, request.kind)
