"""An audit of judges, shown: tables, where they were wrong, and the same as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from mintact_platform.dashboard.judging import (
    audit_table,
    brief,
    confusion_table,
    money,
    verdict_style,
)
from mintact_platform.evaluation.audit import (
    SAID,
    Compared,
    Disagreement,
    Row,
    Truth,
    disagreements,
)
from mintact_platform.evaluation.judgements import Judgement
from mintact_platform.evaluation.recorded import RecordedRun
from mintact_platform.evaluation.statistics import Interval

LISTED = 20
"""Disagreements printed; `--json` has all."""
EXPLAINED = """\
false success: of what failed by the {reference}, called a success. Training rewards it.
false failure: of what succeeded, called a failure. Training loses it."""


@dataclass(frozen=True, slots=True)
class Source:
    """Judgements to be compared.

    Attributes:
        title: who judged, for people.
        key: who judged; two sources of one key are one.
        judgements: by trajectory.
    """

    title: str
    key: str
    judgements: Mapping[str, Judgement]


@dataclass(frozen=True, slots=True)
class Audit:
    """A comparison, ready to be shown.

    Attributes:
        run: whose trajectories.
        command: that shows one of them, without its id.
        reference: what the judges are compared with.
        truth: what it says of the trajectories compared.
        left_out: trajectories of which it says nothing.
        judges: judgements, comparisons and rows, in the order asked for.
    """

    run: RecordedRun
    command: str
    reference: str
    truth: Mapping[str, Truth]
    left_out: int
    judges: tuple[tuple[Source, list[Compared], list[Row]], ...]

    @property
    def disagreements(self) -> list[Disagreement]:
        """False successes first."""
        return disagreements({source.title: compared for source, compared, _ in self.judges})


def show(result: Audit, console: Console, *, narrow: bool = False) -> None:
    """Print a block a judge, then where they were wrong.

    Args:
        result: the comparison.
        console: standard output.
        narrow: whether it has little room.
    """
    without = f" ({result.left_out} have none)" if result.left_out else ""
    _say(console, f"{len(result.truth)} trajectories with a {result.reference}{without}")
    for source, compared, rows in result.judges:
        _say(console, "")
        _say(console, _heading(result, source, rows[-1], narrow=narrow))
        if compared:
            _say(console, "")
            console.print(confusion_table(rows[-1].confusion, result.reference))
            _say(console, "")
            console.print(audit_table(rows, narrow=narrow))
    if any(compared for _, compared, _ in result.judges):
        _say(console, Text("\n" + EXPLAINED.format(reference=result.reference), style="dim"))
    _list(result, console)


def values(result: Audit) -> dict[str, Any]:
    """The comparison as JSON values; what is undefined is null."""
    reasons = _reasons(result)
    return {
        "run": str(result.run.path),
        "reference": result.reference,
        "trajectories": len(result.truth),
        "without_reference": result.left_out,
        "judges": [
            {
                "judge": source.title,
                "not_judged": len(result.truth) - len(found),
                "domains": {row.domain: _row(row) for row in rows},
            }
            for source, found, rows in result.judges
        ],
        "disagreements": [
            {
                **one._asdict(),
                "said": dict(one.said),
                "reasons": {title: reasons[title].get(one.id, "") for title in one.said},
                "show": f"{result.command} {one.id}",
            }
            for one in result.disagreements
        ],
    }


def _heading(result: Audit, source: Source, whole: Row, *, narrow: bool) -> Text:
    facts = []
    if missing := len(result.truth) - whole.confusion.total:
        facts.append(f"{missing} not judged")
    if narrow and whole.confusion.total:
        facts.append(f"{brief(whole.seconds, whole.confusion.total)} each")
    if narrow and whole.cost is not None:
        facts.append(f"cost {money(whole.cost)}")
    return Text.assemble((source.title, "bold cyan"), *(f" · {fact}" for fact in facts))


def _list(result: Audit, console: Console) -> None:
    found, reasons = result.disagreements, _reasons(result)
    if not found:
        return
    poison = sum(one.false_success for one in found)
    _say(console, Text(f"\n{len(found)} disagreements, {poison} of them false successes", "bold"))
    for one in found[:LISTED]:
        _say(console, f"\n{result.command} {one.id}")
        _say(console, f"  {one.domain}: {one.truth} by the {result.reference}")
        for title, said in one.said.items():
            reason = reasons[title].get(one.id, "")
            told = f" by {title}: {reason}" if reason else f" by {title}"
            _say(console, Text.assemble("  ", (said, verdict_style(one.truth, said)), told))
    if len(found) > LISTED:
        _say(console, f"\n… and {len(found) - LISTED} more; --json lists all")


def _say(console: Console, text: str | Text) -> None:
    """Print a line that the terminal may wrap, so that a command in it can be copied whole."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def _reasons(result: Audit) -> dict[str, dict[str, str]]:
    """One line of each judgement, by judge and trajectory."""
    return {
        source.title: {id: judgement.reason for id, judgement in source.judgements.items()}
        for source, *_ in result.judges
    }


def _row(row: Row) -> dict[str, Any]:
    confusion = row.confusion
    return {
        "matrix": {
            truth: dict(zip(SAID, counts, strict=True))
            for truth, counts in (("success", confusion.success), ("failure", confusion.failure))
        },
        "decided": confusion.decided,
        "compared": confusion.total,
        "agreement": _interval(confusion.agreement),
        "kappa": None if math.isnan(confusion.kappa) else confusion.kappa,
        "false_success": _interval(confusion.false_success_rate),
        "false_failure": _interval(confusion.false_failure_rate),
        "precision": _interval(confusion.precision),
        "coverage": _interval(confusion.coverage),
        "seconds": row.seconds,
        "cost": row.cost,
    }


def _interval(interval: Interval) -> dict[str, float] | None:
    return None if math.isnan(interval.mean) else interval._asdict()
