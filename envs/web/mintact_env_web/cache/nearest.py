"""How similar two requests are, for requests that no recorded one equals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from mintact_env_web.cache.key import Key

T = TypeVar("T")

_LONG = 24
_MACHINE_WEIGHT = 0.5


class Nearest(NamedTuple):
    """The most similar key.

    Attributes:
        place: among the candidates.
        score: 0 to 1.
    """

    place: int
    score: float


def nearest(wanted: Key, candidates: Sequence[Key]) -> Nearest | None:
    """The most similar of the candidates, the first of equals; None when nothing is alike."""
    best: Nearest | None = None
    for index, candidate in enumerate(candidates):
        score = similarity(wanted, candidate)
        if score > 0 and (best is None or score > best.score):
            best = Nearest(index, score)
    return best


def similarity(a: Key, b: Key) -> float:
    """The share of parameters and body fields that two requests have in common, 0 to 1.

    Another method, place, range or body without fields is another request altogether.

    Example:
        >>> one = Key("GET", "http://s.test/", (("page", "1"), ("q", "tea")))
        >>> similarity(one, one._replace(query=(("page", "2"), ("q", "tea"))))
        0.5
    """
    if a.method != b.method or a.place != b.place or a.headers != b.headers:
        return 0.0
    if isinstance(a.body, str) or isinstance(b.body, str):
        if a.body != b.body:
            return 0.0
    ours, theirs = Counter(_pairs(a)), Counter(_pairs(b))
    common = _weight(ours & theirs)
    # a value that differs is on both sides, and counts once
    everything = common + max(_weight(ours - theirs), _weight(theirs - ours))
    return common / everything if everything else 1.0


def _pairs(key: Key) -> list[tuple[str, str, str]]:
    body = () if isinstance(key.body, str) else key.body
    return [("query", *pair) for pair in key.query] + [("body", *pair) for pair in body]


def _weight(pairs: Counter[tuple[str, str, str]]) -> float:
    return sum(count * _weight_of(pair[1:]) for pair, count in pairs.items())


def _weight_of(pair: tuple[str, ...]) -> float:
    """Long values and long numbers were chosen by a machine and tell less."""
    value = pair[1]
    machine = len(value) > _LONG or sum(c.isdigit() for c in value) >= 6
    return _MACHINE_WEIGHT if machine else 1.0
