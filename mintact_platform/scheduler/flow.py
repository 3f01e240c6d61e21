"""Flow control: when a domain's producers pause, so that no informative group is wasted.

The paper compares r_d = c_d / q_d over domains. What c_d counts decides whether it works: counted
when a batch admits groups, every r_d stays within one round of the others, since a batch takes
exactly q_d of each, and nobody ever pauses. Counted when the queue accepts them, it works.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FlowState:
    """What a flow control may look at. All counts are groups by domain.

    Attributes:
        quotas: q_d that producers work towards. It is the batch's quota, or more where a domain
            stands in for one that gives nothing.
        accepted: ever accepted into the queue.
        batched: ever put into a batch.
        queued: waiting in the queue.
        in_flight: begun and not ended.
        live: domains with a producer that is neither exhausted nor quarantined nor starved.
        capacity_batches: batches the queue holds.
    """

    quotas: Mapping[str, float]
    accepted: Mapping[str, int]
    batched: Mapping[str, int]
    queued: Mapping[str, int]
    in_flight: Mapping[str, int]
    live: Set[str]
    capacity_batches: int


class FlowControl(Protocol):
    """The pause decision for producers."""

    def may_start(self, domain: str, state: FlowState) -> bool:
        """Whether a producer of `domain` may begin a group now. Quotas are above zero."""
        ...


class NoFlowControl:
    """Nobody pauses; the queue evicts what is too much.

    Args:
        quotas: groups by domain; not used.
    """

    def __init__(self, quotas: Mapping[str, int]) -> None:
        pass

    def may_start(self, domain: str, state: FlowState) -> bool:
        """Always."""
        return True


class QuotaNormalised:
    """A domain pauses while it is `delta` quota rounds ahead of the slowest live domain.

    c_d counts groups accepted into the queue. Batches take q_d of each domain, so the rounds a
    domain is ahead are what it has queued over its quota; a batch off the quotas leaves no debt.
    Work in flight counts too: once a round is queued, all that is begun must fit the queue.

    Args:
        quotas: groups by domain.
        delta: quota rounds; 1 is one batch.
    """

    def __init__(self, quotas: Mapping[str, int], *, delta: float = 1.0) -> None:
        self.delta = delta

    def may_start(self, domain: str, state: FlowState) -> bool:
        """False while ahead, or while the queue may not hold what is begun."""
        return _lead(domain, state.queued, state) < self.delta and _fits(domain, state)


class Credit:
    """A domain pauses while `delta` quota rounds of it are accepted and not yet in a batch.

    Args:
        quotas: groups by domain.
        delta: quota rounds.
    """

    def __init__(self, quotas: Mapping[str, int], *, delta: float = 1.0) -> None:
        self.delta = delta

    def may_start(self, domain: str, state: FlowState) -> bool:
        """False while its credit is used up."""
        return state.queued[domain] < self.delta * state.quotas[domain]


class Admitted:
    """The paper read literally: c_d counts groups admitted to a batch. Inert under strict quotas.

    Args:
        quotas: groups by domain.
        delta: quota rounds.
    """

    def __init__(self, quotas: Mapping[str, int], *, delta: float = 1.0) -> None:
        self.delta = delta

    def may_start(self, domain: str, state: FlowState) -> bool:
        """False while more of it was trained on than of the slowest, in quota rounds."""
        return _lead(domain, state.batched, state) < self.delta


def _lead(domain: str, counts: Mapping[str, int], state: FlowState) -> float:
    """r_d − min r over the live domains; 0 for one that is not live."""
    if domain not in state.live:
        return 0.0
    rounds = {d: counts[d] / state.quotas[d] for d in state.live}
    return rounds[domain] - min(rounds.values())


def _fits(domain: str, state: FlowState) -> bool:
    quota, queued = state.quotas[domain], state.queued[domain]
    begun = queued + state.in_flight[domain]
    return queued < quota or begun < state.capacity_batches * quota
