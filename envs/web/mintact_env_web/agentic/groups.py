"""From fine capabilities to groups: names made alike, answers of a model put together. Pure.

A model merges names in batches. Batches are cut from the sorted set of names, so what comes out
does not depend on the order in which recordings were read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mintact_env_web.agentic.sampler import Group

MAX_NAME = 90
_PUNCTUATION = re.compile(r"[^\w\s/&+-]+")
_SMALL = frozenset({"a", "an", "the"})


@dataclass(frozen=True, slots=True)
class Observed:
    """What one rollout needed.

    Attributes:
        rollout: its id.
        success: the judge's word; None when there is none.
        capabilities: folded names, each once.
    """

    rollout: str
    success: bool | None
    capabilities: tuple[str, ...]


def fold(name: str) -> str:
    """A name as it is compared: small letters, single spaces, no articles, no full stop.

    Example:
        >>> fold("Pick a  date in the Calendar.")
        'pick date in calendar'
    """
    words = _PUNCTUATION.sub(" ", name.casefold()).split()
    return " ".join(word for word in words if word not in _SMALL)[:MAX_NAME].strip()


def read_names(answer: Any) -> list[str]:
    """Folded names in an answer: a list of texts or of objects, or an object that has one."""
    if isinstance(answer, Mapping):
        answer = next((value for value in answer.values() if isinstance(value, list)), [])
    if not isinstance(answer, list):
        return []
    named = (_name(entry) for entry in answer)
    return list(dict.fromkeys(name for name in map(fold, filter(None, named)) if len(name) > 2))


def batches(names: Iterable[str], size: int) -> list[list[str]]:
    """Sorted names in batches of nearly the same size, at most `size`."""
    ordered = sorted(set(names))
    count = -(-len(ordered) // size)
    bounds = [len(ordered) * index // max(count, 1) for index in range(count + 1)]
    return [ordered[low:high] for low, high in pairwise(bounds)]


def read_groups(answer: Any, names: Sequence[str]) -> dict[str, str]:
    """Group by name from a model's answer, for exactly the names that were asked about.

    Names that the model made up are ignored; one that it left out is a group of its own; one in
    several groups goes to the first of them in alphabetical order.

    Args:
        answer: `{"groups": {group: [name, …]}}`, or the inner object, or a list of
            `{"name": group, "capabilities": [name, …]}`.
        names: folded.
    """
    known, placed = set(names), {}
    for group, members in sorted(_grouped(answer)):
        for name in members:
            if name in known and name not in placed:
                placed[name] = group
    return {name: placed.get(name, name) for name in sorted(known)}


def composed(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Group by name after the groups themselves were merged."""
    return {name: then.get(group, group) for name, group in first.items()}


def tally(observed: Iterable[Observed], group_of: Mapping[str, str]) -> list[Group]:
    """Groups with their capabilities and how often rollouts needed them; the most frequent first.

    A rollout counts once for a group, however many of its capabilities it showed.
    """
    skills: dict[str, set[str]] = defaultdict(set)
    for name, group in group_of.items():
        skills[group].add(name)
    seen, judged, failed = Counter[str](), Counter[str](), Counter[str]()
    for one in {o.rollout: o for o in observed}.values():
        for group in {group_of[name] for name in one.capabilities if name in group_of}:
            seen[group] += 1
            judged[group] += one.success is not None
            failed[group] += one.success is False
    found = [
        Group(group, tuple(sorted(names)), seen[group], judged[group], failed[group])
        for group, names in skills.items()
        if seen[group]
    ]
    return sorted(found, key=lambda group: (-group.seen, group.name))


def _grouped(answer: Any) -> list[tuple[str, list[str]]]:
    if isinstance(answer, Mapping) and isinstance(answer.get("groups"), Mapping | list):
        answer = answer["groups"]
    if isinstance(answer, Mapping):
        pairs = [(fold(str(group)), members) for group, members in answer.items()]
    elif isinstance(answer, list):
        pairs = [(fold(_name(entry) or ""), _members(entry)) for entry in answer]
    else:
        pairs = []
    return [
        (group, [fold(name) for name in members if isinstance(name, str)])
        for group, members in pairs
        if group and isinstance(members, list)
    ]


def _name(entry: Any) -> str | None:
    if isinstance(entry, Mapping):
        entry = next((entry[k] for k in ("name", "capability", "group") if k in entry), None)
    return entry if isinstance(entry, str) else None


def _members(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return None
    return next((value for value in entry.values() if isinstance(value, list)), None)
