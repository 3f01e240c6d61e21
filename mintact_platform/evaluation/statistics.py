"""Intervals for success rates, paired comparisons. Pure functions on plain numbers, stdlib only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import NamedTuple


class Interval(NamedTuple):
    """An estimate with its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals share a point."""
        return self.low <= other.high and other.low <= self.high


class Paired(NamedTuple):
    """A comparison of two policies on the same tasks.

    Attributes:
        difference: mean of second − first, with its interval.
        gained: tasks that only the second solved.
        lost: tasks that only the first solved.
        p: two-sided p-value of the exact McNemar test.
    """

    difference: Interval
    gained: int
    lost: int
    p: float


def wilson(successes: float, n: int, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a success rate; with `n == 0` it is all of [0, 1].

    Example:
        >>> print(wilson(8, 10))
        0.80 [0.49, 0.94]
    """
    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    if not 0 <= successes <= n:
        raise ValueError(f"{successes!r} successes of {n!r}")
    z = _z(confidence)
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(p, low, high)


def mean_of_rates(rates: Sequence[tuple[float, int]], *, confidence: float = 0.95) -> Interval:
    """The unweighted mean over domains of `(successes, n)`, each domain an independent sample.

    The Wilson half-widths of the domains are combined as independent errors (MOVER), so the
    interval stays inside [0, 1] and does not shrink to a point at rates of 0 or 1.
    """
    intervals = [wilson(successes, n, confidence=confidence) for successes, n in rates if n]
    if not intervals:
        return Interval(math.nan, 0.0, 1.0)
    k, mean = len(intervals), fmean(i.mean for i in intervals)
    down = math.sqrt(sum((i.mean - i.low) ** 2 for i in intervals)) / k
    up = math.sqrt(sum((i.high - i.mean) ** 2 for i in intervals)) / k
    return Interval(mean, max(0.0, mean - down), min(1.0, mean + up))


def rate_difference(
    first: tuple[float, int], second: tuple[float, int], *, confidence: float = 0.95
) -> Interval:
    """Second − first of two independent rates `(successes, n)`, by Newcombe's score method.

    Example:
        >>> print(rate_difference((10, 20), (18, 20)))
        0.40 [0.12, 0.61]
    """
    a, b = wilson(*first, confidence=confidence), wilson(*second, confidence=confidence)
    mean = b.mean - a.mean
    low = mean - math.hypot(b.mean - b.low, a.high - a.mean)
    high = mean + math.hypot(b.high - b.mean, a.mean - a.low)
    return Interval(mean, low, high)


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Mean of real values with its normal interval (a point when there is only one value)."""
    n = len(values)
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf)
    mean = fmean(values)
    if n == 1:
        return Interval(mean, mean, mean)
    variance = sum((v - mean) ** 2 for v in values) / (n - 1)
    half = _z(confidence) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half)


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact McNemar p-value from the two discordant counts.

    Example:
        >>> round(mcnemar(8, 1), 4)
        0.0391
    """
    n = gained + lost
    if n == 0:
        return 1.0
    tail: int = sum(math.comb(n, i) for i in range(min(gained, lost) + 1))
    return min(1.0, float(tail / 2 ** (n - 1)))


def paired(
    first: Sequence[float],
    second: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Paired:
    """Compare two policies on the same tasks, in the same order.

    Args:
        first: one success (0 or 1, or a mean over repeats) a task.
        second: the same of the other policy.
        confidence: of the bootstrap interval over tasks.
        resamples: bootstrap draws.
        seed: of the draws; the same seed gives the same interval.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} tasks against {len(second)}")
    differences = [b - a for a, b in zip(first, second, strict=True)]
    gained, lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    interval = _bootstrap(differences, confidence=confidence, resamples=resamples, seed=seed)
    return Paired(interval, gained, lost, mcnemar(gained, lost))


def _bootstrap(
    values: Sequence[float], *, confidence: float, resamples: int, seed: int
) -> Interval:
    if not values:
        return Interval(math.nan, -math.inf, math.inf)
    generator = random.Random(seed)
    means = sorted(fmean(generator.choices(values, k=len(values))) for _ in range(resamples))
    cut = int((1 - confidence) / 2 * resamples)
    return Interval(fmean(values), means[cut], means[resamples - 1 - cut])


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)
