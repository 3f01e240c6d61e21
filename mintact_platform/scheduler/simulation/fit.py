"""Assumptions fitted to a recorded run: a simulation of what it was, to be changed from there."""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform import config as configuration
from mintact_platform.config import RunConfig
from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.simulation.assumptions import Assumptions, parse
from mintact_platform.storage.database import Database

Span = tuple[float, float]
PARTS, LEAST = 5, 12
"""Most points an informative rate has over the run, and the groups behind each."""

_GROUPS = (
    "SELECT id, domain, fate, opened_at, closed_at,"
    " (SELECT sum(tokens) FROM trajectories WHERE group_id = groups.id) AS tokens"
    " FROM groups WHERE closed_at > opened_at AND fate <> 'cancelled'"
)


class RecordedStep(NamedTuple):
    """A trainer step of a recorded run.

    Attributes:
        seconds: it took.
        tokens: of its groups.
        after: seconds from when trainer and batch were ready until it began.
        free: seconds from when the trainer was free, weights pushed, until it began.
    """

    seconds: float
    tokens: float
    after: float
    free: float


def fit_run(path: Path) -> Assumptions:
    """Fit a run directory; quotas, schedule and synchronisation are its own.

    Raises:
        ConfigurationError: a run that has not trained yet.
        StorageError: no run there.
    """
    database = Database(path / "run.db")
    try:
        recorded = tomllib.loads((path / "config.toml").read_text())
        config = configuration.parse(recorded, where=str(path / "config.toml"))
        return fit(database, config, where=str(path))
    finally:
        database.close()


def fit(database: Database, config: RunConfig, *, where: str = "run.db") -> Assumptions:
    """Fit durations, lengths, rates and the trainer's pace.

    A domain of which no group ended is left out.

    Raises:
        ConfigurationError: nothing was trained.
    """
    groups = [dict(row) for row in database.read(_GROUPS)]
    steps = recorded_steps(database)
    if not steps or not groups:
        raise ConfigurationError(
            "no trainer step is recorded", where=where, next="fit a run that has trained"
        )
    by_domain: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for group in groups:
        by_domain[group["domain"]].append(group)
    done = database.read("SELECT done_at FROM steps WHERE done_at IS NOT NULL ORDER BY step")
    moments = [row["done_at"] for row in done]
    values = {
        "steps": len(steps),
        "active": concurrency((g["opened_at"], g["closed_at"]) for g in groups),
        "group_size": config.rollout.group_size,
        "domains": {
            name: _domain(quota, by_domain[name], moments)
            for name, quota in config.quotas.items()
            if by_domain[name]
        },
        "trainer": _trainer(database, steps, config.evaluation.every),
        "schedule": config.schedule.model_dump(exclude_none=True),
        "sync": config.sync.model_dump(exclude_none=True),
    }
    return parse(values, where=where)


def _domain(
    quota: int, groups: Sequence[Mapping[str, Any]], moments: Sequence[float]
) -> dict[str, Any]:
    seconds = [group["closed_at"] - group["opened_at"] for group in groups]
    fates = Counter(group["fate"] for group in groups)
    return {
        "quota": quota,
        "seconds": sum(seconds) / len(seconds),
        "sigma": _deviation([math.log(value) for value in seconds]),
        "informative": _informative(groups, moments),
        "failures": fates["dropped"] / len(groups),
        "producers": concurrency((g["opened_at"], g["closed_at"]) for g in groups),
        "tokens": sum(group["tokens"] or 0 for group in groups) / len(groups),
    }


def _informative(
    groups: Sequence[Mapping[str, Any]], moments: Sequence[float]
) -> list[tuple[float, float]]:
    """The informative rate over the steps, each point the mean of a part of the run."""
    judged = sorted(
        (group["closed_at"], group["fate"] != "filtered")
        for group in groups
        if group["fate"] != "dropped"
    )
    parts = max(1, min(PARTS, len(judged) // LEAST))
    points: dict[float, float] = {}
    for number in range(parts):
        part = judged[number * len(judged) // parts : (number + 1) * len(judged) // parts]
        if part:
            middle = sum(bisect(moments, at) for at, _ in part) / len(part)
            points[middle] = sum(informative for _, informative in part) / len(part)
    return sorted(points.items()) or [(0.0, 0.0)]


def recorded_steps(database: Database) -> list[RecordedStep]:
    """The steps of a run whose duration is known, in order."""
    closed, tokens = {}, {}
    for row in database.read(_GROUPS):
        closed[row["id"]], tokens[row["id"]] = row["closed_at"], float(row["tokens"] or 0)
    pushes = {
        row["step"]: row["seconds"]
        for row in database.read("SELECT step, seconds FROM pushes WHERE ok = 1")
    }
    steps: list[RecordedStep] = []
    free_at = math.inf
    for row in database.read("SELECT * FROM steps WHERE done_at IS NOT NULL ORDER BY step"):
        seconds = json.loads(row["metrics_json"] or "{}").get("train/seconds", {}).get("")
        ids = json.loads(row["groups_json"])
        if seconds is not None:
            ready = max([free_at, *(closed.get(id, 0.0) for id in ids)])
            after = max(0.0, row["done_at"] - seconds - ready) if ready < math.inf else 0.0
            free = max(0.0, row["done_at"] - seconds - free_at) if free_at < math.inf else 0.0
            length = sum(tokens.get(id, 0.0) for id in ids)
            steps.append(RecordedStep(seconds, length, after, free))
        free_at = row["done_at"] + pushes.get(row["step"], 0.0)
    return steps


def _trainer(
    database: Database, steps: Sequence[RecordedStep], evaluation_every: int
) -> dict[str, float]:
    # step n + 1 waits for the evaluation after step n
    evaluated = [
        s for n, s in enumerate(steps) if evaluation_every and n and not n % evaluation_every
    ]
    others = [step for step in steps if step not in evaluated] or steps
    base, slope = line([(step.tokens, step.seconds) for step in steps])
    pushes = database.read("SELECT avg(seconds) AS mean FROM pushes WHERE ok = 1")
    rest = [step.seconds / max(base + slope * step.tokens, 1e-9) for step in steps]
    return {
        "seconds": base + sum(step.after for step in others) / len(others),
        "seconds_per_token": slope,
        "sigma": _deviation([math.log(max(value, 1e-9)) for value in rest]),
        "push_seconds": pushes[0]["mean"] or 0.0,
        "evaluation_every": evaluation_every if evaluated else 0,
        "evaluation_seconds": sum(s.free for s in evaluated) / max(1, len(evaluated)),
    }


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Base and slope of the least-squares line, neither below zero.

    Example:
        >>> line([(0, 1), (2, 5)])
        (1.0, 2.0)
    """
    n = len(points)
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    square = sum((x - mx) ** 2 for x, _ in points)
    slope = sum((x - mx) * (y - my) for x, y in points) / square if square > 0 else 0.0
    slope = max(0.0, slope)
    base = my - slope * mx
    return (base, slope) if base >= 0 else (0.0, my / mx)


def concurrency(spans: Iterable[Span], quantile: float = 0.9) -> int:
    """Groups that were open at the same time for most of it: a quantile over time.

    The few moments at which more were open say nothing about what can be kept up.
    """
    spans = list(spans)
    turns = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    lasted: Counter[int] = Counter()
    count = 0
    for (at, change), (following, _) in itertools.pairwise(turns):
        count += change
        lasted[count] += following - at  # type: ignore[assignment]
    del lasted[0]
    left = quantile * sum(lasted.values())
    for number in sorted(lasted):
        left -= lasted[number]
        if left <= 0:
            return number
    return 1


def _deviation(values: Sequence[float]) -> float:
    centre = sum(values) / len(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / len(values))
