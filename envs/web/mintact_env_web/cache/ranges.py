"""Ranges of a body: which recorded responses hold one, and how it is cut from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mintact_env_web.cache.exchange import Entry

_ASKED = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_HELD = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+|\*)")


class Span(NamedTuple):
    """Bytes that a response holds.

    Attributes:
        first: index of its first byte.
        last: index of its last byte, inclusive; None for a whole body of unknown length.
        total: length of the whole body, None when unknown.
    """

    first: int
    last: int | None
    total: int | None


def span_of(entry: Entry) -> Span | None:
    """What part of its body an entry holds, None for none."""
    response = entry.response
    if response is None:
        return None
    if response.status == 200:
        return Span(0, None, None)
    held = _HELD.fullmatch(response.header("content-range") or "")
    if response.status != 206 or held is None:
        return None
    first, last, total = held.groups()
    return Span(int(first), int(last), None if total == "*" else int(total))


def covering(asked: str, candidates: Sequence[Entry]) -> tuple[Entry, ...]:
    """Entries that hold a range together, in the order of their bytes; () when a part is missing.

    Args:
        asked: value of a `range` header.
        candidates: responses to requests for the same body.
    """
    held = [(span, entry) for entry in candidates if (span := span_of(entry)) is not None]
    whole = [entry for span, entry in held if span.last is None]
    if whole:
        return (whole[0],)
    parts = sorted(((s.first, s.last, e) for s, e in held if s.last is not None), key=_first_two)
    limits = _limits(asked, next((s.total for s, _ in held if s.total is not None), None))
    if limits is None or not parts:
        return ()
    position, last = limits
    chosen: list[Entry] = []
    for begin, end, entry in parts:
        if begin <= position <= end:
            chosen.append(entry)
            position = end + 1
        if position > last:
            return tuple(chosen)
    return ()


def cut(asked: str, parts: Sequence[tuple[Span, bytes]]) -> tuple[bytes, str] | None:
    """The range and its `content-range`; None when it cannot be satisfied.

    Args:
        asked: value of a `range` header.
        parts: what `covering` chose, with the bodies.

    Example:
        >>> cut("bytes=2-3", [(Span(0, None, None), b"abcdef")])
        (b'cd', 'bytes 2-3/6')
    """
    whole, data = parts[0]
    total = len(data) if whole.last is None else whole.total
    limits = _limits(asked, total)
    if limits is None:
        return None
    first, last = limits
    joined, start = b"", parts[0][0].first
    for span, body in parts:
        joined += body[start + len(joined) - span.first :]
    piece = joined[first - start : last - start + 1]
    return piece, f"bytes {first}-{first + len(piece) - 1}/{'*' if total is None else total}"


def _limits(asked: str, total: int | None) -> tuple[int, int] | None:
    """First and last byte, inclusive; None when the range is of another kind or out of reach."""
    found = _ASKED.fullmatch(asked.replace(" ", ""))
    if found is None:
        return None
    begin, end = found.groups()
    if begin and (end or total is not None):
        first, last = int(begin), int(end) if end else (total or 0) - 1
    elif end and total is not None:
        first, last = max(0, total - int(end)), total - 1
    else:
        return None
    last = last if total is None else min(last, total - 1)
    return (first, last) if first <= last else None


def _first_two(part: tuple[int, int, Entry]) -> tuple[int, int]:
    return part[:2]
