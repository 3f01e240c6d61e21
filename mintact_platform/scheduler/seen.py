"""What each batch was formed with, as run.db keeps it: a resumed mixture is told the same again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mintact_platform.scheduler.decisions import Batch
from mintact_platform.scheduler.quota import DomainStatistics
from mintact_platform.storage import ledger
from mintact_platform.storage.database import Database, Operation

NAMES = ("mix/judged", "mix/informative", "mix/reward")

_TOTALS = """
select domain, count(*) judged, sum(fate <> 'filtered') informative, sum(coalesce(
    (select avg(reward) from trajectories where group_id = groups.id and reward is not null), 0)
  ) reward
from groups where fate not in ('open', 'dropped', 'cancelled') group by domain
"""


def record(batch: Batch, at: float) -> list[Operation]:
    """Metrics to write in the transaction that begins the step: one of each, every step."""
    return [
        ledger.metric(name, domain, float(value), at)
        for domain, seen in batch.statistics.items()
        for name, value in zip(NAMES, (seen.judged, seen.informative, seen.reward), strict=True)
    ]


def recorded(database: Database) -> list[dict[str, DomainStatistics]]:
    """By domain, for every batch from the first on."""
    columns: dict[str, dict[str, list[float]]] = defaultdict(lambda: {n: [] for n in NAMES})
    for row in database.read(
        "select name, domain, value from metrics where name in (?, ?, ?) order by rowid", NAMES
    ):
        columns[row["domain"]][row["name"]].append(row["value"])
    rows = {
        domain: [DomainStatistics(int(j), int(i), r) for j, i, r in zip(*c.values(), strict=True)]
        for domain, c in columns.items()
    }
    length = max(map(len, rows.values()), default=0)
    return [{d: some[n] for d, some in rows.items() if n < len(some)} for n in range(length)]


def since_batch(
    database: Database, batches: Sequence[Mapping[str, DomainStatistics]]
) -> dict[str, DomainStatistics]:
    """What was judged after the last batch: all that the ledger has, less what is recorded."""
    left = {}
    for row in database.read(_TOTALS):
        told = [batch[row["domain"]] for batch in batches if row["domain"] in batch]
        left[row["domain"]] = DomainStatistics(
            row["judged"] - sum(seen.judged for seen in told),
            row["informative"] - sum(seen.informative for seen in told),
            max(0.0, row["reward"] - sum(seen.reward for seen in told)),
        )
    return left
