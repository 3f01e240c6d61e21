"""What a run did, read from its directory: steps, rollouts, evaluations, failures."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform.config import RunConfig, load
from mintact_platform.errors import ConfigurationError, StorageError, near_match
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage.directory import RunDirectory, run_names
from mintact_platform.storage.ledger import get_meta
from mintact_platform.storage.trajectories import load_record


class Rate(NamedTuple):
    """Successes of so many live rollouts, and how many more were masked."""

    successes: int
    n: int
    masked: int = 0


class Sample(NamedTuple):
    """A metric's value at a moment, in seconds since the run began."""

    seconds: float
    value: float


@dataclass(frozen=True, slots=True)
class Step:
    """One trainer step.

    Attributes:
        step: 1-based.
        groups: ids, in batch order.
        prox_version: weights deployed when it was taken.
        realised: groups by domain.
        metrics: `{metric: {domain: value}}`, empty until it is done.
        done_at: seconds since the epoch, None until it is done.
    """

    step: int
    groups: tuple[str, ...]
    prox_version: int
    realised: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, float]]
    done_at: float | None


@dataclass(frozen=True, slots=True)
class Rollout:
    """One recorded rollout, of training or of an evaluation.

    Attributes:
        id: trajectory id.
        domain: the run's name for it.
        task: task id.
        step: trainer steps done when its group was closed, or the evaluation's step.
        outcome: how it ended.
        verdict: None when it was not judged.
        turns: taken.
        path: file under the run directory.
        label: the evaluation's label, "" in training.
        failure: why it is masked.
    """

    id: str
    domain: str
    task: str
    step: int
    outcome: Outcome
    verdict: Verdict | None
    turns: int
    path: str
    label: str = ""
    failure: Failure | None = None

    @property
    def live(self) -> bool:
        """Whether it counts: the agent's own behaviour, with a reward."""
        return self.outcome.counts and self.verdict is not None and self.verdict.reward is not None

    @property
    def success(self) -> bool:
        """Whether the judge said so."""
        return self.verdict is not None and self.verdict.label == "success"


@dataclass
class FailureRow:
    """Failures of one kind.

    Attributes:
        outcome: the typed outcome.
        phase: where it happened.
        kind: exception type or the far side's word.
        domain: of the task.
        count: how many.
        first: id of the first one.
        message: of the first one.
        log_tail: of the first one.
    """

    outcome: Outcome
    phase: str
    kind: str
    domain: str
    count: int
    first: str
    message: str
    log_tail: str = field(repr=False, default="")


class History:
    """A run directory opened for reading; close it after use.

    Args:
        path: the run directory.

    Raises:
        StorageError: no run.db, or one of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = RunDirectory.open(path)
        self.database = self.directory.database

    def close(self) -> None:
        """Close the database."""
        self.directory.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def config(self) -> RunConfig | None:
        """The merged run file, None when it is missing or from another version."""
        try:
            return load(self.path / "config.toml")
        except ConfigurationError:
            return None

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """In the run file's order, then what the tables hold besides."""
        known = list(self.config.domains) if self.config else []
        found = {row["domain"] for row in self.database.read("SELECT DISTINCT domain FROM groups")}
        found |= {rollout.domain for rollout in self.evaluations}
        return tuple(known + sorted(found - set(known)))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All recorded steps, in order."""
        rows = self.database.read("SELECT * FROM steps ORDER BY step")
        return tuple(
            Step(
                row["step"],
                tuple(json.loads(row["groups_json"])),
                row["prox_version"],
                json.loads(row["realised_json"]),
                json.loads(row["metrics_json"]) if row["metrics_json"] else {},
                row["done_at"],
            )
            for row in rows
        )

    @cached_property
    def began(self) -> float:
        """When the first group was opened or metric written, in seconds since the epoch."""
        return min(self._moments("min"), default=0.0)

    @cached_property
    def ended(self) -> float:
        """The newest moment recorded, in seconds since the epoch."""
        return max(self._moments("max"), default=self.began)

    @cached_property
    def version(self) -> int:
        """Newest weight version that all servers confirmed."""
        rows = self.database.read("SELECT max(version) v FROM pushes WHERE ok = 1")
        return int(rows[0]["v"] or 0)

    @cached_property
    def rollouts(self) -> tuple[Rollout, ...]:
        """Training rollouts in order of their ids, which is the order of their beginning."""
        done = [s.done_at for s in self.steps if s.done_at is not None]
        rows = self.database.read(
            "SELECT t.*, g.domain, g.task, coalesce(g.closed_at, 1e18) closed "
            "FROM trajectories t JOIN groups g ON g.id = t.group_id ORDER BY t.id"
        )
        return tuple(_rollout(row, step=bisect_right(done, row["closed"])) for row in rows)

    @cached_property
    def evaluations(self) -> tuple[Rollout, ...]:
        """Evaluation episodes, by step."""
        rows = self.database.read("SELECT * FROM evaluations ORDER BY step, id")
        return tuple(_rollout(row, step=row["step"], label=row["label"]) for row in rows)

    @cached_property
    def supervised(self) -> bool:
        """Whether it is a supervised stage, which has no objective and no groups."""
        return get_meta(self.database, "verb") == "sft"

    def progress(self) -> tuple[int, str]:
        """Steps taken; and in words, with those the run file asks for."""
        if self.supervised:
            taken = len(self.metric("sft/loss"))
            asked = max(taken, self.config.sft.steps) if self.config else None
        else:
            taken = sum(step.done_at is not None for step in self.steps)
            asked = self.config.trainer.steps if self.config else None
        return taken, f"{taken}" if asked is None else f"{taken} of {asked}"

    def metric(self, name: str, domain: str = "") -> tuple[Sample, ...]:
        """A metric over time."""
        query = "SELECT time, value FROM metrics WHERE name = ? AND domain = ? ORDER BY time"
        rows = self.database.read(query, (name, domain))
        return tuple(Sample(row["time"] - self.began, row["value"]) for row in rows)

    def ages(self) -> dict[str, Counter[int]]:
        """How many weight versions old each trained group was, by domain."""
        rows = self.database.read("SELECT id, domain, oldest_version FROM groups")
        groups = {row["id"]: row for row in rows if row["oldest_version"] is not None}
        ages: dict[str, Counter[int]] = defaultdict(Counter)
        for step in self.steps:
            for group in (groups[g] for g in step.groups if g in groups):
                ages[group["domain"]][step.prox_version - group["oldest_version"]] += 1
        return dict(ages)

    def fates(self) -> dict[str, Counter[str]]:
        """Groups by domain and fate."""
        rows = self.database.read("SELECT domain, fate, count(*) n FROM groups GROUP BY 1, 2")
        fates: dict[str, Counter[str]] = {domain: Counter() for domain in self.domains}
        for row in rows:
            fates[row["domain"]][row["fate"]] = row["n"]
        return fates

    def failures(self) -> list[FailureRow]:
        """Masked rollouts by cause: our own bugs first, then in order of first occurrence."""
        rows: dict[tuple[Outcome, str, str, str], FailureRow] = {}
        for rollout in (*self.rollouts, *self.evaluations):
            if rollout.outcome.counts or rollout.outcome is Outcome.CANCELLED:
                continue
            failure = rollout.failure or self._failure(rollout)
            key = (rollout.outcome, failure.phase, failure.kind, rollout.domain)
            if key not in rows:
                rows[key] = FailureRow(*key, 0, rollout.id, failure.message, failure.log_tail)
            rows[key].count += 1
        internal = Outcome.INTERNAL_FAILURE
        return sorted(rows.values(), key=lambda row: (row.outcome is not internal, row.first))

    def _failure(self, rollout: Rollout) -> Failure:
        """The failure written in the trajectory's file, for evaluations have no column for it."""
        try:
            recorded = Failure.from_json(load_record(self.path / rollout.path)["failure"])
        except StorageError:
            recorded = None
        return recorded or Failure("", "", "not recorded")

    def _moments(self, which: str) -> list[float]:
        columns = (("groups", "opened_at"), ("groups", "closed_at"), ("metrics", "time"))
        found = [self.database.read(f"SELECT {which}({c}) t FROM {t}")[0]["t"] for t, c in columns]
        return [float(moment) for moment in found if moment is not None]


def find_run(name: str, runs: Path) -> Path:
    """The directory of a run given as a path or as a name under `runs`.

    Raises:
        ConfigurationError: there is none, with the near match.
    """
    for path in (Path(name), runs / name):
        if (path / "run.db").exists():
            return path
    hint = near_match(Path(name).name, run_names(runs))
    raise ConfigurationError(f"no run named {name!r}", where=str(runs), next=hint)


def rate(rollouts: Sequence[Rollout]) -> Rate:
    """Count successes among live rollouts; masked ones stay out, cancelled ones are not counted."""
    live = [r for r in rollouts if r.live]
    masked = sum(not r.live and r.outcome is not Outcome.CANCELLED for r in rollouts)
    return Rate(sum(r.success for r in live), len(live), masked)


def _rollout(row: Any, *, step: int, label: str = "") -> Rollout:
    keys = row.keys()
    failure = row["failure_json"] if "failure_json" in keys else None
    return Rollout(
        row["id"],
        row["domain"],
        row["task"],
        step,
        Outcome(row["outcome"]),
        Verdict.from_json(json.loads(row["verdict_json"])) if row["verdict_json"] else None,
        row["turns"],
        row["path"],
        label,
        Failure.from_json(json.loads(failure)) if failure else None,
    )
