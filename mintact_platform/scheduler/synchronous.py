"""The synchronous mode's bookkeeping: what the one batch in the making still needs.

Decided by counts, never by time, so that a deterministic run repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from mintact_platform.scheduler.quota import apportion

ATTEMPTS = 8
"""Groups of a domain begun for each one wanted, before the others stand in for it."""


class Round:
    """Targets and begun groups of the batch in the making.

    Args:
        quotas: q_d of that batch.
    """

    def __init__(self, quotas: Mapping[str, int]) -> None:
        self.started: Counter[str] = Counter()
        self.restart(quotas, {})

    def restart(self, quotas: Mapping[str, int], queued: Mapping[str, int]) -> None:
        """Begin the next batch; what is queued already counts as begun for it."""
        self._quotas = dict(quotas)
        self._targets = dict(quotas)
        self._given_up: set[str] = set()
        self.started = Counter(dict(queued))

    def needs(self, domain: str, in_flight: int, queued: int) -> bool:
        """Whether one more group of the domain should begin."""
        target = self._targets[domain]
        return in_flight + queued < target and self.started[domain] < ATTEMPTS * target

    def settle(self, queued: Mapping[str, int], exhausted: Set[str]) -> dict[str, int] | None:
        """The groups to take by domain once nothing is in flight; None while more should begin.

        Domains that used up their attempts hand what they lack to those that filled theirs.
        """
        short = [d for d, target in self._targets.items() if queued[d] < target]
        if not short:
            return dict(self._targets)
        if any(d not in exhausted and self.needs(d, 0, queued[d]) for d in short):
            return None
        lacking = sum(self._targets[d] - queued[d] for d in short)
        self._given_up.update(d for d in short if d not in exhausted)
        standing_in = {
            d: quota
            for d, quota in self._quotas.items()
            if quota and d not in short and d not in exhausted and d not in self._given_up
        }
        for domain in short:
            self._targets[domain] = queued[domain]
        if not standing_in:
            return self._smaller_batch(queued)
        for domain, extra in apportion(lacking, standing_in).items():
            self._targets[domain] += extra
        return None

    def _smaller_batch(self, queued: Mapping[str, int]) -> dict[str, int] | None:
        if sum(self._targets.values()):
            return dict(self._targets)
        self.restart(self._quotas, queued)
        return None
