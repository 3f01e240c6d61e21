"""Every change of run.db, as values: what happened to groups, trajectories, steps and weights.

Each function that changes something returns an `Operation` for `Database.write`; several given to
one call are one transaction.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mintact_platform.errors import StorageError
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage.database import Operation

if TYPE_CHECKING:
    from mintact_platform.registry.loader import PluginRow

Fate = Literal[
    "open", "queued", "filtered", "dropped", "cancelled", "batched", "evicted", "stale", "trained"
]

TRANSITIONS: Mapping[str, frozenset[str]] = {
    "open": frozenset({"queued", "filtered", "dropped", "cancelled"}),
    "queued": frozenset({"batched", "evicted", "stale"}),
    "batched": frozenset({"trained"}),
}
"""The only changes of fate there are."""


# ---- groups ------------------------------------------------------------------------------------


def open_group(id: str, task: Task | str, domain: str, at: float) -> Operation:
    """A group begins. A `Task` is also recorded in `tasks`, a string is its id."""

    def operation(connection: sqlite3.Connection) -> None:
        name = task
        if isinstance(task, Task):
            name = task.id
            record = json.dumps(task.to_json(), ensure_ascii=False)
            connection.execute(
                "INSERT INTO tasks VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (name, domain, record),
            )
        connection.execute(
            "INSERT INTO groups (id, task, domain, fate, opened_at) VALUES (?, ?, ?, 'open', ?)",
            (id, name, domain, at),
        )

    return operation


def close_group(
    id: str, fate: Fate, reason: str = "", oldest_version: int | None = None, at: float = 0.0
) -> Operation:
    """A group ends: queued, filtered, dropped or cancelled.

    Args:
        id: an open group.
        fate: what becomes of it.
        reason: why, for people.
        oldest_version: weight version of its oldest supervised token.
        at: seconds since the epoch.
    """

    def operation(connection: sqlite3.Connection) -> None:
        _move(connection, [id], fate, reason)
        connection.execute(
            "UPDATE groups SET closed_at = ?, oldest_version = ? WHERE id = ?",
            (at, oldest_version, id),
        )

    return operation


def set_fate(ids: Iterable[str], fate: Fate, reason: str = "") -> Operation:
    """Groups move on, e.g. from queued to evicted."""
    moved = list(ids)
    return lambda connection: _move(connection, moved, fate, reason)


def _move(connection: sqlite3.Connection, ids: Sequence[str], fate: str, reason: str) -> None:
    for id in ids:
        row = connection.execute("SELECT fate FROM groups WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise StorageError(f"no group {id!r}", where="run.db")
        if fate not in TRANSITIONS.get(row[0], ()):
            raise StorageError(f"group {id!r} is {row[0]}, it cannot become {fate}", where="run.db")
        connection.execute(
            "UPDATE groups SET fate = ?, reason = iif(? = '', reason, ?) WHERE id = ?",
            (fate, reason, reason, id),
        )


# ---- trajectories ------------------------------------------------------------------------------


def add_trajectory(trajectory: Trajectory, path: Path) -> Operation:
    """A rollout ended and its file is written; its verdict comes later, or never."""
    first, last = trajectory.version_range
    failure = trajectory.failure
    values = (
        trajectory.id,
        trajectory.group,
        trajectory.member,
        trajectory.attempt,
        str(trajectory.outcome),
        None if failure is None else failure.phase,
        len(trajectory.turns),
        trajectory.tokens,
        first,
        last,
        relative(path),
        _failure_json(failure),
    )

    def operation(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO trajectories (id, group_id, member, attempt, outcome, phase, turns,"
            " tokens, first_version, last_version, path, failure_json)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )

    return operation


def set_verdict(
    trajectory_id: str,
    verdict: Verdict | None,
    reward: float | None,
    outcome: Outcome | None = None,
    failure: Failure | None = None,
) -> Operation:
    """A judge answered, or failed: then `outcome` and `failure` say so and mask the rollout."""
    record = None if verdict is None else json.dumps(verdict.to_json(), ensure_ascii=False)

    def operation(connection: sqlite3.Connection) -> None:
        changed = connection.execute(
            "UPDATE trajectories SET verdict_json = ?, reward = ?, outcome = coalesce(?, outcome),"
            " phase = coalesce(?, phase), failure_json = coalesce(?, failure_json) WHERE id = ?",
            (
                record,
                reward,
                None if outcome is None else str(outcome),
                None if failure is None else failure.phase,
                _failure_json(failure),
                trajectory_id,
            ),
        )
        if changed.rowcount != 1:
            raise StorageError(f"no trajectory {trajectory_id!r}", where="run.db")

    return operation


def add_evaluation(
    trajectory: Trajectory,
    path: Path,
    *,
    step: int,
    domain: str = "",
    label: str = "",
    verdict: Verdict | None = None,
    reward: float | None = None,
) -> Operation:
    """A held-out episode ended; it belongs to no group and is not part of the ledger.

    Args:
        trajectory: the episode.
        path: its file.
        step: trainer steps in the weights that played it.
        domain: the run's name for it, "" where that is the task's own.
        label: which evaluation it belongs to, e.g. `before` or `after`.
        verdict: the judge's answer.
        reward: its reward, None when masked.
    """
    values = (
        trajectory.id,
        step,
        domain or trajectory.task.domain,
        trajectory.task.id,
        str(trajectory.outcome),
        reward,
        len(trajectory.turns),
        trajectory.tokens,
        relative(path),
        None if verdict is None else json.dumps(verdict.to_json(), ensure_ascii=False),
        label,
    )

    def operation(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values
        )

    return operation


def relative(path: Path) -> str:
    """A trajectory's file as run.db names it: relative to the run directory, so that runs move."""
    return "/".join(("trajectories", *path.parts[-2:]))


def _failure_json(failure: Failure | None) -> str | None:
    return None if failure is None else json.dumps(failure.to_json(), ensure_ascii=False)


# ---- the trainer's write-ahead log -------------------------------------------------------------


def begin_step(
    step: int,
    groups: Sequence[str],
    prox_version: int,
    realised: Mapping[str, int],
    seed: int,
    config_hash: str,
) -> Operation:
    """A batch goes to the trainer: recorded with its groups in order, which become `batched`."""
    members, mix = json.dumps(list(groups)), json.dumps(dict(realised))

    def operation(connection: sqlite3.Connection) -> None:
        if connection.execute("SELECT 1 FROM steps WHERE step = ?", (step,)).fetchone():
            raise StorageError(f"step {step} is already recorded", where="run.db")
        _move(connection, list(groups), "batched", "")
        connection.execute(
            "INSERT INTO steps (step, groups_json, prox_version, realised_json, seed, config_hash)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (step, members, prox_version, mix, seed, config_hash),
        )

    return operation


def finish_step(
    step: int, metrics: Mapping[str, Mapping[str, float]], at: float | None = None
) -> Operation:
    """The trainer finished a step: its groups are `trained`. A replayed step stays as it is.

    Args:
        step: a recorded step.
        metrics: `{metric: {domain: value}}`.
        at: seconds since the epoch, None for now.
    """
    record, now = json.dumps(metrics), time.time() if at is None else at

    def operation(connection: sqlite3.Connection) -> None:
        row = connection.execute(
            "SELECT groups_json, done_at FROM steps WHERE step = ?", (step,)
        ).fetchone()
        if row is None:
            raise StorageError(f"step {step} is not recorded", where="run.db")
        if row[1] is not None:
            return
        _move(connection, json.loads(row[0]), "trained", "")
        connection.execute(
            "UPDATE steps SET metrics_json = ?, done_at = ? WHERE step = ?", (record, now, step)
        )

    return operation


def push(version: int, step: int, seconds: float, ok: bool) -> Operation:
    """Weights of a step were pushed to the model servers, or the attempt failed."""
    return _insert("pushes", version, step, seconds, int(ok))


# ---- the rest ----------------------------------------------------------------------------------


def metric(name: str, domain: str, value: float, at: float) -> Operation:
    """One measured value; domain "" is the whole run."""
    return _insert("metrics", at, name, domain, value)


def plugin_rows(rows: Iterable[PluginRow]) -> Operation:
    """The table of plugins, in place of the one before."""
    values = [(r.distribution, r.version, json.dumps(list(r.provides)), r.error) for r in rows]

    def operation(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM plugins")
        connection.executemany("INSERT INTO plugins VALUES (?, ?, ?, ?)", values)

    return operation


def set_meta(key: str, value: str) -> Operation:
    """Set a value of the `meta` table."""

    def operation(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    return operation


def _insert(table: str, *values: Any) -> Operation:
    marks = ", ".join("?" * len(values))

    def operation(connection: sqlite3.Connection) -> None:
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)

    return operation
