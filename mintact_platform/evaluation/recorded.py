"""What a run recorded, for judging it again: read once, nothing of it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from mintact_platform.config import RunConfig, load
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage.connections import read_once
from mintact_platform.storage.images import ImageStore

_ROLLOUTS = (
    "SELECT t.id, g.domain, g.task, t.outcome, t.verdict_json, t.failure_json, t.path, '' AS label"
    " FROM trajectories t JOIN groups g ON g.id = t.group_id ORDER BY t.id"
)
_EVALUATIONS = (
    "SELECT id, domain, task, outcome, verdict_json, NULL AS failure_json, path, label"
    " FROM evaluations ORDER BY id"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trajectory as run.db names it.

    Attributes:
        id: trajectory id.
        domain: of its task.
        task: task id.
        outcome: how it ended, its judge's failure included.
        verdict: what its judge said; None when it failed, or has not come to it.
        failure: why it is masked.
        path: its file.
        evaluation: the evaluation's label, "" in training.
    """

    id: str
    domain: str
    task: str
    outcome: Outcome
    verdict: Verdict | None
    failure: Failure | None
    path: Path
    evaluation: str = ""

    @property
    def judgeable(self) -> bool:
        """Whether it shows the agent's own behaviour: it counts, or only its judge masked it."""
        masked_by_judge = self.failure is not None and self.failure.phase == "judge"
        return self.outcome.counts or self.outcome is Outcome.JUDGE_FAILURE or masked_by_judge


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as it stands.

    Attributes:
        path: the run directory.
        trajectories: of training and evaluations, oldest first.
        config: the merged run file; None where it is missing or of another version.
    """

    path: Path
    trajectories: tuple[Recorded, ...]
    config: RunConfig | None

    @property
    def images(self) -> ImageStore:
        """Its screenshots."""
        return ImageStore(self.path / "images")

    @property
    def domains(self) -> tuple[str, ...]:
        """In the run file's order, then what was recorded besides."""
        named = list(self.config.domains) if self.config else []
        return tuple(dict.fromkeys([*named, *sorted({r.domain for r in self.trajectories})]))


def read_run(path: Path) -> RecordedRun:
    """Read a run directory, live or finished; leaves no trace in it.

    Raises:
        StorageError: no run.db, or one of another version.
    """
    rows = read_once(path / "run.db", _ROLLOUTS, _EVALUATIONS)
    trajectories = sorted((_recorded(path, row) for row in chain(*rows)), key=lambda r: r.id)
    try:
        config = load(path / "config.toml")
    except ConfigurationError:
        config = None
    return RecordedRun(path, tuple(trajectories), config)


def select(
    run: RecordedRun,
    *,
    domains: Sequence[str] = (),
    outcomes: Iterable[str] | None = None,
    limit: int | None = None,
) -> list[Recorded]:
    """The trajectories to judge, the same ones at every call.

    Args:
        run: what was recorded.
        domains: only these; all when empty.
        outcomes: only these recorded outcomes; None takes what counts or only its judge masked.
        limit: at most so many, see `evenly`.

    Raises:
        ConfigurationError: an unknown domain or outcome, with the near match.
    """
    for domain in domains:
        if domain not in run.domains:
            raise ConfigurationError(
                f"no domain {domain!r}", where="--domain", next=near_match(domain, run.domains)
            )
    wanted = None if outcomes is None else {_outcome(name) for name in outcomes}
    chosen = [
        recorded
        for recorded in run.trajectories
        if (not domains or recorded.domain in domains)
        and (recorded.judgeable if wanted is None else recorded.outcome in wanted)
    ]
    return chosen if limit is None else evenly(chosen, limit)


def evenly(recorded: Sequence[Recorded], limit: int) -> list[Recorded]:
    """A sample of at most `limit`, as many of each domain as there are, in order of ids.

    It is drawn from the whole run by the ids alone: everyone gets the same one, and a larger one
    holds the smaller.
    """
    by_domain: dict[str, list[Recorded]] = {}
    for one in sorted(recorded, key=_lot):
        by_domain.setdefault(one.domain, []).append(one)
    turns = chain.from_iterable(zip_longest(*by_domain.values()))
    found = [one for one in turns if one is not None]
    return sorted(found[:limit], key=lambda one: one.id)


def _lot(recorded: Recorded) -> bytes:
    return hashlib.blake2b(recorded.id.encode(), digest_size=8).digest()


def _recorded(path: Path, row: Any) -> Recorded:
    verdict, failure = row["verdict_json"], row["failure_json"]
    return Recorded(
        id=row["id"],
        domain=row["domain"],
        task=row["task"],
        outcome=Outcome(row["outcome"]),
        verdict=Verdict.from_json(json.loads(verdict)) if verdict else None,
        failure=Failure.from_json(json.loads(failure)) if failure else None,
        path=path / row["path"],
        evaluation=row["label"],
    )


def _outcome(name: str) -> Outcome:
    known = [str(outcome) for outcome in Outcome]
    if name not in known:
        raise ConfigurationError(
            f"unknown outcome {name!r}", where="--outcomes", next=near_match(name, known)
        )
    return Outcome(name)
