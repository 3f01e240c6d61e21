"""A batch's rows as the database has them, so that a step and its replay are the same request."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.trainer import RowRef

_LAST_ATTEMPTS = """
select id, group_id, member, reward, verdict_json, path from trajectories t
where group_id = ? and attempt = (
  select max(attempt) from trajectories where group_id = t.group_id and member = t.member)
order by member
"""


def rows_of(directory: RunDirectory, groups: Sequence[str]) -> tuple[RowRef, ...]:
    """Members of the groups in order, masked ones included: they count in the normaliser."""
    rows = []
    for group in groups:
        domain = directory.database.read("select domain from groups where id = ?", (group,))
        for row in directory.database.read(_LAST_ATTEMPTS, (group,)):
            live = row["reward"] is not None
            verdict = json.loads(row["verdict_json"]) if row["verdict_json"] else {}
            turns = verdict.get("turn_rewards")
            rows.append(
                RowRef(
                    id=row["id"],
                    path=str(directory.trajectories.path(row["id"])),
                    group=group,
                    domain=domain[0]["domain"],
                    reward=float(row["reward"]) if live else 0.0,
                    live=live,
                    reward_parts=verdict.get("components", {}) if live else {},
                    turn_rewards=tuple(turns) if live and turns is not None else None,
                )
            )
    return tuple(rows)
