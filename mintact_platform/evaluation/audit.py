"""How far a judge can be trusted: its verdicts against a reference. Pure functions.

The reference calls each trajectory a success or a failure. A judge may say either, or say nothing
(abstain, blame the environment, fail), which masks the trajectory and so teaches the policy
nothing. The two mistakes are not alike: a *false success* (false positive) rewards work that
failed, and training follows it; a *false failure* (false negative) wastes work that succeeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from mintact_platform.evaluation.judgements import Said
from mintact_platform.evaluation.statistics import Interval, wilson

Truth = Literal["success", "failure"]
"""What the reference says of a trajectory."""

SAID: tuple[Said, ...] = get_args(Said)
"""Columns of a confusion matrix: what a judge may say."""
ALL = "all"
"""Name of the row over all domains."""


class Compared(NamedTuple):
    """One trajectory: what the reference says, and what the judge said.

    Attributes:
        id: trajectory id.
        domain: of its task.
        truth: the reference.
        said: by the judge.
        seconds: the judge took.
        cost: of the judgement, if it has one.
    """

    id: str
    domain: str
    truth: Truth
    said: Said
    seconds: float = 0.0
    cost: float | None = None

    @property
    def decided(self) -> bool:
        """Whether the judge said success or failure."""
        return self.said in ("success", "failure")

    @property
    def disagrees(self) -> bool:
        """Whether it decided otherwise than the reference."""
        return self.decided and self.said != self.truth


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion matrix.

    Attributes:
        success: counts in the order of `SAID` of what the reference calls a success.
        failure: the same of what it calls a failure.
    """

    success: tuple[int, ...] = (0,) * len(SAID)
    failure: tuple[int, ...] = (0,) * len(SAID)

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(
            tuple(a + b for a, b in zip(self.success, other.success, strict=True)),
            tuple(a + b for a, b in zip(self.failure, other.failure, strict=True)),
        )

    @property
    def right(self) -> int:
        """Verdicts that agree with the reference."""
        return self.success[0] + self.failure[1]

    @property
    def false_successes(self) -> int:
        """Failures called a success."""
        return self.failure[0]

    @property
    def false_failures(self) -> int:
        """Successes called a failure."""
        return self.success[1]

    @property
    def decided(self) -> int:
        """Trajectories that the judge called a success or a failure."""
        return sum(self.success[:2]) + sum(self.failure[:2])

    @property
    def total(self) -> int:
        """All trajectories compared."""
        return sum(self.success) + sum(self.failure)

    @property
    def agreement(self) -> Interval:
        """Share of decided trajectories on which judge and reference agree, Wilson 95 %."""
        return wilson(self.right, self.decided)

    @property
    def false_success_rate(self) -> Interval:
        """Of the decided failures, the share called a success: the false positive rate."""
        return wilson(self.false_successes, sum(self.failure[:2]))

    @property
    def false_failure_rate(self) -> Interval:
        """Of the decided successes, the share called a failure: the false negative rate."""
        return wilson(self.false_failures, sum(self.success[:2]))

    @property
    def precision(self) -> Interval:
        """Of the judge's successes, the share that are: what a policy learns from."""
        return wilson(self.success[0], self.success[0] + self.failure[0])

    @property
    def coverage(self) -> Interval:
        """Share of trajectories on which the judge decided."""
        return wilson(self.decided, self.total)

    @property
    def kappa(self) -> float:
        """Cohen's κ over decided trajectories, see `kappa`."""
        return kappa(self.success[0], self.success[1], self.failure[0], self.failure[1])


class Row(NamedTuple):
    """A judge against the reference in one domain, or over all.

    Attributes:
        domain: name, or `all`.
        confusion: counts, and the rates made from them.
        seconds: the judge took.
        cost: of the judgements, None when none has one.
    """

    domain: str
    confusion: Confusion
    seconds: float
    cost: float | None


class Disagreement(NamedTuple):
    """A trajectory on which at least one judge decided otherwise than the reference.

    Attributes:
        id: trajectory id.
        domain: of its task.
        truth: the reference.
        said: by every judge that judged it.
    """

    id: str
    domain: str
    truth: Truth
    said: Mapping[str, Said]

    @property
    def false_success(self) -> bool:
        """Whether a failure was called a success."""
        return self.truth == "failure"


def kappa(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Cohen's κ of two raters: agreement beyond what their rates alone would give.

    Args:
        both: called a success by both.
        first_only: by the first alone.
        second_only: by the second alone.
        neither: by none.

    Returns:
        1 for full agreement, 0 for chance; NaN where one value alone leaves nothing to agree on.

    Example:
        >>> round(kappa(20, 5, 10, 15), 3)
        0.4
    """
    n = both + first_only + second_only + neither
    if n == 0:
        return math.nan
    first, second = (both + first_only) / n, (both + second_only) / n
    by_chance = first * second + (1 - first) * (1 - second)
    if by_chance == 1:
        return math.nan
    return ((both + neither) / n - by_chance) / (1 - by_chance)


def confusion(compared: Iterable[Compared]) -> Confusion:
    """Count what was said of successes and of failures."""
    counts = {truth: dict.fromkeys(SAID, 0) for truth in get_args(Truth)}
    for one in compared:
        counts[one.truth][one.said] += 1
    return Confusion(tuple(counts["success"].values()), tuple(counts["failure"].values()))


def audit(compared: Sequence[Compared]) -> list[Row]:
    """A row a domain, in order of their names, and one over all at the end."""
    domains = sorted({one.domain for one in compared})
    rows = [_row(domain, [one for one in compared if one.domain == domain]) for domain in domains]
    return [*rows, _row(ALL, compared)]


def disagreements(by_judge: Mapping[str, Iterable[Compared]]) -> list[Disagreement]:
    """Where a judge decided otherwise than the reference; false successes first.

    Args:
        by_judge: comparisons by the judge's title.
    """
    said: dict[str, dict[str, Said]] = {}
    found: dict[str, Compared] = {}
    for title, compared in by_judge.items():
        for one in compared:
            said.setdefault(one.id, {})[title] = one.said
            if one.disagrees:
                found.setdefault(one.id, one)
    listed = [Disagreement(one.id, one.domain, one.truth, said[id]) for id, one in found.items()]
    return sorted(listed, key=lambda d: (not d.false_success, d.domain, d.id))


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum of the known ones, None when none is known."""
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known else None


def _row(domain: str, compared: Sequence[Compared]) -> Row:
    seconds = math.fsum(one.seconds for one in compared)
    return Row(domain, confusion(compared), seconds, total_cost(one.cost for one in compared))
