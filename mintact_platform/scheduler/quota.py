"""Per-step domain quotas q_d, and the arithmetic of sharing a batch by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mintact_platform.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class DomainStatistics:
    """Groups of a domain that were judged between two batches; failed and dropped ones are not.

    Attributes:
        judged: how many.
        informative: of these, admitted to the queue.
        reward: sum over them of the mean reward of their live rollouts.
    """

    judged: int = 0
    informative: int = 0
    reward: float = 0.0


class Mixture(Protocol):
    """Decides how many groups of each domain a batch holds.

    One that also has `observe` is told what was seen, see `ObservingMixture`.
    """

    def quotas(self, step: int) -> Mapping[str, int]:
        """q_d of the batch of a step, 1-based. Their sum stays B."""
        ...


@runtime_checkable
class ObservingMixture(Protocol):
    """A mixture that follows the run.

    Whatever it knows must come from here: a resumed run tells a fresh one the same again, in order.
    """

    def quotas(self, step: int) -> Mapping[str, int]:
        """As of any mixture."""
        ...

    def observe(self, step: int, statistics: Mapping[str, DomainStatistics]) -> None:
        """The batch of a step was formed; `quotas(step + 1)` is asked next.

        Args:
            step: 1-based.
            statistics: of every domain, since the batch before.
        """
        ...


class FixedMixture:
    """The same quotas for every step, as in the paper.

    Args:
        quotas: groups by domain.
    """

    def __init__(self, quotas: Mapping[str, int]) -> None:
        if not any(quota > 0 for quota in quotas.values()) or min(quotas.values()) < 0:
            raise ConfigurationError(
                f"quotas must not be negative and hold one group at least, got {dict(quotas)!r}",
                where="domains",
            )
        self._quotas = dict(quotas)

    def quotas(self, step: int) -> Mapping[str, int]:
        """The quotas given."""
        return self._quotas


def apportion(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Split `total` in proportion to `weights` by largest remainders; ties go to the first.

    Example:
        >>> apportion(5, {"web": 2, "tools": 1})
        {'web': 3, 'tools': 2}
    """
    whole = sum(weights.values())
    if whole <= 0:
        return dict.fromkeys(weights, 0)
    exact = {domain: total * weight / whole for domain, weight in weights.items()}
    shares = {domain: int(value) for domain, value in exact.items()}
    by_remainder = sorted(exact, key=lambda domain: shares[domain] - exact[domain])
    for domain in by_remainder[: total - sum(shares.values())]:
        shares[domain] += 1
    return shares
