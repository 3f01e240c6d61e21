"""Quotas that follow the run: more of a domain while its groups teach, less once they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.quota import DomainStatistics

PRIOR_RATE, PRIOR_GROUPS = 0.5, 8.0
"""What an informative rate is taken for before anything is seen, and how many groups that is."""
LEAST = 0.01
"""Worth of a domain that teaches nothing: when none does, the quotas are those of the run file."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a domain has shown lately; older steps count ever less.

    Attributes:
        judged: groups.
        informative: of these.
        fast: mean reward over the last steps, None before the first group.
        slow: mean reward over some more.
    """

    judged: float = 0.0
    informative: float = 0.0
    fast: float | None = None
    slow: float | None = None

    @property
    def rate(self) -> float:
        """Informative share of its groups."""
        informative = self.informative + PRIOR_RATE * PRIOR_GROUPS
        return informative / (self.judged + PRIOR_GROUPS)

    @property
    def progress(self) -> float:
        """How far its mean reward has moved lately, up or down."""
        if self.fast is None or self.slow is None:
            return 0.0
        return abs(self.fast - self.slow)

    def after(self, seen: DomainStatistics, memory: float) -> Signal:
        """The signal one step later; `memory` steps is how far back it reaches."""
        kept = 1 - 1 / memory
        judged = kept * self.judged + seen.judged
        informative = kept * self.informative + seen.informative
        if not seen.judged:
            return Signal(judged, informative, self.fast, self.slow)
        reward = seen.reward / seen.judged
        return Signal(
            judged,
            informative,
            _towards(self.fast, reward, min(1.0, 4 / memory)),
            _towards(self.slow, reward, 1 / memory),
        )


class AdaptiveMixture:
    """Quotas in proportion to what each domain gives to learn from, within bounds; Σ stays B.

    A domain's worth is its informative rate plus `progress` times the recent change of its mean
    reward. Every domain keeps some groups, so that one that begins to teach again is noticed.

    Args:
        quotas: q_d of the run file: the quotas while all domains are worth the same.
        minimum: of q_d, the least a quota falls to; never below one group.
        maximum: of q_d, the most a quota grows to.
        memory: steps it looks back.
        progress: weight of learning progress beside the informative rate.
    """

    def __init__(
        self,
        quotas: Mapping[str, int],
        *,
        minimum: float = 0.25,
        maximum: float = 2.0,
        memory: float = 16.0,
        progress: float = 2.0,
    ) -> None:
        if not 0 <= minimum <= 1 <= maximum or memory < 1 or progress < 0:
            raise ConfigurationError(
                "minimum lies in 0 … 1, maximum and memory are 1 or more, progress 0 or more",
                where="mixture 'adaptive'",
            )
        self.memory, self.weight = memory, progress
        self.base = {domain: quota for domain, quota in quotas.items() if quota}
        self.low = {d: max(1, int(minimum * q)) for d, q in self.base.items()}
        self.high = {d: max(q, int(maximum * q)) for d, q in self.base.items()}
        self.signals = {domain: Signal() for domain in self.base}
        self._none = {domain: 0 for domain, quota in quotas.items() if not quota}

    def quotas(self, step: int) -> Mapping[str, int]:
        """q_d of the next batch."""
        worth = {
            domain: self.base[domain] * (LEAST + signal.rate + self.weight * signal.progress)
            for domain, signal in self.signals.items()
        }
        return {**self._none, **share_out(sum(self.base.values()), worth, self.low, self.high)}

    def observe(self, step: int, statistics: Mapping[str, DomainStatistics]) -> None:
        """Take in what was judged for the batch of a step."""
        for domain, signal in self.signals.items():
            seen = statistics.get(domain, DomainStatistics())
            self.signals[domain] = signal.after(seen, self.memory)


def share_out(
    total: int, weights: Mapping[str, float], low: Mapping[str, int], high: Mapping[str, int]
) -> dict[str, int]:
    """Split `total` in proportion to `weights`, each within its bounds (Sainte-Laguë).

    A larger weight never gets less, and weights that fit `total` exactly get just themselves.

    Args:
        total: Σ low ≤ total ≤ Σ high.
        weights: above zero.
        low: least by domain.
        high: most by domain.

    Example:
        >>> share_out(8, {"web": 3.0, "phone": 1.0}, {"web": 1, "phone": 1}, {"web": 8, "phone": 8})
        {'web': 6, 'phone': 2}
    """
    shares = dict(low)
    for _ in range(total - sum(shares.values())):
        open_ = [domain for domain in shares if shares[domain] < high[domain]]
        most = max(open_, key=lambda domain: weights[domain] / (2 * shares[domain] + 1))
        shares[most] += 1
    return shares


def _towards(mean: float | None, value: float, part: float) -> float:
    return value if mean is None else mean + part * (value - mean)
