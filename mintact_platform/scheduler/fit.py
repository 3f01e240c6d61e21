"""Simulated domains fitted to a recorded run."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mintact_platform.scheduler.simulate import SimulatedDomain
from mintact_platform.storage.database import Database


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a recorded run was like.

    Attributes:
        domains: with the given quotas.
        train_seconds: mean of its trainer steps, None when none is recorded.
        push_seconds: mean of its pushes, 0.0 without any.
    """

    domains: Mapping[str, SimulatedDomain]
    train_seconds: float | None
    push_seconds: float


def fit(database: Database, quotas: Mapping[str, int]) -> Fitted:
    """Fit durations and informative rates to a recorded run.

    Args:
        database: of the run.
        quotas: groups by domain; a domain of which no group ended is left out.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    informative: Counter[str] = Counter()
    for row in database.read(
        "SELECT domain, fate, opened_at, closed_at FROM groups"
        " WHERE closed_at > opened_at AND fate <> 'cancelled'"
    ):
        spans.setdefault(row["domain"], []).append((row["opened_at"], row["closed_at"]))
        informative[row["domain"]] += row["fate"] not in ("filtered", "dropped")
    domains = {
        name: _fitted(quota, spans[name], informative[name] / len(spans[name]))
        for name, quota in quotas.items()
        if spans.get(name)
    }
    steps = database.read("SELECT avg(value) AS mean FROM metrics WHERE name = 'train/seconds'")
    pushes = database.read("SELECT avg(seconds) AS mean FROM pushes WHERE ok = 1")
    return Fitted(domains, steps[0]["mean"], pushes[0]["mean"] or 0.0)


def _fitted(
    quota: int, spans: Sequence[tuple[float, float]], informative: float
) -> SimulatedDomain:
    seconds = [end - begin for begin, end in spans]
    logs = [math.log(value) for value in seconds]
    centre = sum(logs) / len(logs)
    variance = sum((value - centre) ** 2 for value in logs) / len(logs)
    return SimulatedDomain(
        quota=quota,
        seconds=sum(seconds) / len(seconds),
        informative=informative,
        producers=_most_at_once(spans),
        sigma=math.sqrt(variance),
    )


def _most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """Groups that were open at the same time, at most."""
    turns = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    return max(itertools.accumulate(change for _, change in turns))
