"""The ledger: every group of a run is accounted for, and the proof of it.

The operations that write it are importable from here too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from mintact_platform.errors import StorageError
from mintact_platform.storage.database import Database
from mintact_platform.storage.operations import (
    TRANSITIONS,
    Fate,
    add_evaluation,
    add_trajectory,
    begin_step,
    close_group,
    finish_step,
    metric,
    open_group,
    plugin_rows,
    push,
    set_fate,
    set_meta,
    set_verdict,
)
from mintact_platform.storage.trajectories import load_record

__all__ = [
    "FATES",
    "TRANSITIONS",
    "Fate",
    "LedgerRow",
    "add_evaluation",
    "add_trajectory",
    "begin_step",
    "check",
    "close_group",
    "finish_step",
    "get_meta",
    "ledger",
    "metric",
    "open_group",
    "plugin_rows",
    "push",
    "set_fate",
    "set_meta",
    "set_verdict",
]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What became of the groups of a domain; the fields after the first add up to it."""

    produced: int = 0
    trained: int = 0
    batched: int = 0
    filtered: int = 0
    stale: int = 0
    evicted: int = 0
    dropped: int = 0
    cancelled: int = 0
    queued: int = 0
    open: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every group produced is accounted for."""
        total = sum(int(getattr(self, fate)) for fate in FATES)
        return self.produced == total

    def __str__(self) -> str:
        """The line that `mintact check` prints."""
        fates = " + ".join(f"{fate} {getattr(self, fate)}" for fate in FATES)
        return f"produced {self.produced} = {fates} {'✓' if self.balanced else '✗'}"


FATES = tuple(field.name for field in fields(LedgerRow))[1:]
"""All fates, in the order of the printed line."""


def ledger(database: Database) -> dict[str, LedgerRow]:
    """The ledger of each domain. `trained` and `batched` are counted from the steps, not the fates.

    So the sum is a statement: every group has one fate, and the steps hold just those they should.
    """
    # one statement, one snapshot: the sum holds while a run goes on
    rows = database.read(
        "SELECT domain, 'produced' AS what, count(*) AS n FROM groups GROUP BY domain"
        " UNION ALL SELECT domain, fate, count(*) FROM groups"
        " WHERE fate NOT IN ('batched', 'trained') GROUP BY domain, fate"
        " UNION ALL SELECT domain, iif(done_at IS NULL, 'batched', 'trained'), count(*)"
        " FROM steps, json_each(steps.groups_json) AS member"
        " JOIN groups ON groups.id = member.value GROUP BY 1, 2"
    )
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["domain"], {})[row["what"]] = row["n"]
    known = ("produced", *FATES)
    return {
        domain: LedgerRow(*(counts[domain].get(what, 0) for what in known))
        for domain in sorted(counts)
    }


def get_meta(database: Database, key: str, default: str | None = None) -> str | None:
    """A value of the `meta` table."""
    rows = database.read("SELECT value FROM meta WHERE key = ?", (key,))
    return str(rows[0]["value"]) if rows else default


def check(database: Database, directory: Path | None = None) -> list[str]:
    """What is wrong with a run, one line each; nothing when it is sound.

    Args:
        database: of the run.
        directory: the run directory; with it, files of trajectories and their images are looked up.
    """
    with database.snapshot():
        problems = [*_balances(database), *_fates(database), *_steps(database)]
    if directory is not None:
        problems += _files(database, directory)
    return problems


def _balances(database: Database) -> Iterator[str]:
    for domain, row in ledger(database).items():
        if not row.balanced:
            yield f"{domain}: {row}"


def _fates(database: Database) -> Iterator[str]:
    for row in database.read("SELECT id, fate FROM groups"):
        if row["fate"] not in FATES:
            yield f"group {row['id']} has an unknown fate {row['fate']!r}"


def _steps(database: Database) -> Iterator[str]:
    groups = {r["id"]: r for r in database.read("SELECT id, domain, fate FROM groups")}
    seen: dict[str, int] = {}
    expected = 1
    for step in database.read("SELECT * FROM steps ORDER BY step"):
        number, done = step["step"], step["done_at"] is not None
        if number != expected:
            yield f"step {number} follows step {expected - 1}"
        expected = number + 1
        mix: Counter[str] = Counter()
        for id in json.loads(step["groups_json"]):
            if id in seen:
                yield f"group {id} is in step {seen[id]} and in step {number}"
            seen[id] = number
            if id not in groups:
                yield f"step {number} holds group {id}, which does not exist"
                continue
            mix[groups[id]["domain"]] += 1
            fate, due = groups[id]["fate"], "trained" if done else "batched"
            if fate != due:
                yield f"group {id} of step {number} is {fate}, not {due}"
        recorded = {d: n for d, n in json.loads(step["realised_json"]).items() if n}
        if recorded != dict(mix):
            yield f"step {number} records the mix {recorded}, its groups are {dict(mix)}"
    for id, row in groups.items():
        if row["fate"] in ("batched", "trained") and id not in seen:
            yield f"group {id} is {row['fate']} but in no step"


def _files(database: Database, directory: Path) -> Iterator[str]:
    missing: set[Path] = set()
    for row in database.read(
        "SELECT id, path FROM trajectories UNION ALL SELECT id, path FROM evaluations ORDER BY id"
    ):
        try:
            record = load_record(directory / row["path"])
        except StorageError as error:
            yield f"trajectory {row['id']}: {error.what} at {row['path']}"
            continue
        if record["id"] != row["id"]:
            yield f"trajectory {row['id']}: {row['path']} holds {record['id']}"
        for digest, extension in record["image_extensions"].items():
            image = directory / "images" / digest[:2] / f"{digest}.{extension}"
            if image not in missing and not image.exists():
                missing.add(image)
                yield f"trajectory {row['id']}: no image {digest}.{extension}"
