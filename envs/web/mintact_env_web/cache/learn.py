"""Rules by comparing visits: what differs although the same things were done is volatile. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from mintact_env_web.cache.exchange import Entry, Request
from mintact_env_web.cache.fields import body_fields, query_fields
from mintact_env_web.cache.key import Key, endpoint_of, key_of
from mintact_env_web.cache.rules import Rules
from mintact_env_web.cache.shapes import shape_of

LEAST = 0.6
"""Requests that have less in common are different requests."""


def learn(entries: Sequence[Entry], rules: Rules) -> Rules:
    """Rules under which all visits make the requests of the first.

    Args:
        entries: of at least two visits of the same script.
        rules: so far.
    """
    visits = sorted({entry.visit for entry in entries})
    first = [entry.request for entry in entries if entry.visit == 0]
    for visit in visits[1:]:
        other = [entry.request for entry in entries if entry.visit == visit]
        rules = from_pairs(pair(first, other, rules), rules)
    return _with_accept(entries, rules)


def pair(
    first: Sequence[Request], other: Sequence[Request], rules: Rules
) -> list[tuple[Request, Request]]:
    """Requests that mean the same but have different keys, with the differing one first.

    Args:
        first: of one visit.
        other: of another.
        rules: what is known to differ.
    """
    ours, theirs = _left_over(first, other, rules), _left_over(other, first, rules)
    pairs = []
    for request in theirs:
        candidates = [own for own in ours if _alike(own, request)]
        if not candidates:
            continue
        # the first of the best: requests of the same kind are paired in order
        best = max(candidates, key=lambda own: _common(own, request))
        if _common(best, request) >= LEAST or len(candidates) == 1:
            ours.remove(best)
            pairs.append((best, request))
    return pairs


def from_pairs(pairs: Iterable[tuple[Request, Request]], rules: Rules) -> Rules:
    """Rules that make the requests of every pair equal, as far as fields and paths can."""
    found: dict[str, set[str]] = defaultdict(set)
    paths: set[str] = set()
    pairs = list(pairs)
    for one, other in pairs:
        pattern = _common_path(one, other)
        if pattern is not None:
            paths.add(pattern)
    known = rules.with_learnt({}, paths)
    for one, other in pairs:
        found[endpoint_of(one, known)] |= _differing(one, other)
    return known.with_learnt({name: names for name, names in found.items() if names})


def _left_over(
    requests: Sequence[Request], others: Sequence[Request], rules: Rules
) -> list[Request]:
    """Requests whose key the others do not have, as often as they have it more."""
    known: Counter[Key] = Counter(key_of(request, rules) for request in others)
    left = []
    for request in requests:
        key = key_of(request, rules)
        if known[key]:
            known[key] -= 1
        elif not rules.stubbed(request):
            left.append(request)
    return left


def _alike(one: Request, other: Request) -> bool:
    """The same method, host, and path but for segments that a machine made."""
    if one.method != other.method or urlsplit(one.url).netloc != urlsplit(other.url).netloc:
        return False
    return urlsplit(one.url).path == urlsplit(other.url).path or bool(_common_path(one, other))


def _common(one: Request, other: Request) -> float:
    """The share of fields in common, 0 to 1; the same name with another value counts half."""
    ours, theirs = _by_name(one), _by_name(other)
    names = {*ours, *theirs}
    both = sum(0.5 for name in names if name in ours and name in theirs)
    equal = sum(0.5 for name in names if ours.get(name) == theirs.get(name))
    return (both + equal) / len(names) if names else 1.0


def _common_path(one: Request, other: Request) -> str | None:
    """`host/path` with `*` where machine-made segments differ; None when others do, or none."""
    a, b = urlsplit(one.url), urlsplit(other.url)
    ours, theirs = a.path.split("/"), b.path.split("/")
    if len(ours) != len(theirs) or ours == theirs:
        return None
    segments = []
    for left, right in zip(ours, theirs, strict=True):
        if left == right:
            segments.append(left)
        elif shape_of(left) is not None and shape_of(right) is not None:
            segments.append("*")
        else:
            return None
    return f"{a.netloc.lower()}{'/'.join(segments)}"


def _differing(one: Request, other: Request) -> set[str]:
    """Names of fields that both have with other values, and of those that only one has."""
    ours, theirs = _by_name(one), _by_name(other)
    return {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}


def _by_name(request: Request) -> dict[str, list[str]]:
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in [*query_fields(request.url), *(body_fields(request) or ())]:
        values[name].append(value)
    return values


def _with_accept(entries: Sequence[Entry], rules: Rules) -> Rules:
    """The endpoints that answer differently to another `Accept` header."""
    seen: dict[Key, dict[str, str]] = defaultdict(dict)
    endpoints = set(rules.accept)
    for entry in entries:
        kind = entry.response.header("content-type") if entry.response else None
        accept = entry.request.headers.get("accept")
        if kind is None or accept is None:
            continue
        kinds = seen[key_of(entry.request, rules)]
        kinds[accept] = kind
        if len(kinds) > 1 and len(set(kinds.values())) > 1:
            endpoints.add(endpoint_of(entry.request, rules))
    return replace(rules, accept=tuple(sorted(endpoints)))
