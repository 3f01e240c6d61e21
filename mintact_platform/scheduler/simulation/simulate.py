"""Simulate a run, several seeds of it, or a sweep over its settings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.build import scheduler_of
from mintact_platform.scheduler.simulation.assumptions import Assumptions, changed, sweep
from mintact_platform.scheduler.simulation.journal import MemoryJournal
from mintact_platform.scheduler.simulation.result import Simulation, bounds, result_of
from mintact_platform.scheduler.simulation.world import World
from mintact_platform.scheduler.state import Scheduler

PATIENCE = 24 * 3600.0
"""Virtual seconds without a batch, at least, after which a run counts as stuck."""


@dataclass(frozen=True, slots=True)
class Case:
    """One setting of a sweep, simulated with several seeds.

    Attributes:
        overrides: what is different from the file, `key=value`.
        assumptions: with them.
        results: one a seed.
    """

    overrides: tuple[str, ...]
    assumptions: Assumptions
    results: tuple[Simulation, ...]

    def mean(self, value: Callable[[Simulation], float]) -> float:
        """Mean of a figure over the seeds."""
        return statistics.fmean(value(result) for result in self.results)

    def spread(self, value: Callable[[Simulation], float]) -> float:
        """Half of the range of a figure over the seeds."""
        values = [value(result) for result in self.results]
        return (max(values) - min(values)) / 2


def simulate(
    assumptions: Assumptions, registry: Registry, *, seed: int | None = None
) -> Simulation:
    """Run once.

    Args:
        assumptions: the run.
        registry: where mixture and flow control are found.
        seed: of durations and rewards; None takes the assumptions' own.

    Raises:
        ConfigurationError: a wrong parameter of mixture or flow control.
        PluginError: no such mixture or flow control.
    """
    journal = MemoryJournal(assumptions.domains)
    chosen = assumptions.seed if seed is None else seed
    world = World(assumptions, builder(assumptions, registry), journal, seed=chosen)
    slowest = min((limit for limit in bounds(assumptions).values() if limit), default=1.0)
    alive = world.run(max(PATIENCE, 20 * 3600 / slowest))
    return result_of(world, journal, stuck=not alive)


def cases(
    assumptions: Assumptions,
    registry: Registry,
    *,
    wishes: Sequence[str] = (),
    seeds: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Case]:
    """Every setting of a sweep, one after the other.

    Args:
        assumptions: what the wishes change.
        registry: where mixture and flow control are found.
        wishes: `key=a,b,c`; several make every combination.
        seeds: of each setting.
        told: called with the runs done and those wanted.
    """
    settings = [(each, changed(assumptions, each)) for each in sweep(wishes)]
    done = 0
    for overrides, one in settings:
        results = []
        for number in range(seeds):
            told(done, len(settings) * seeds)
            results.append(simulate(one, registry, seed=one.seed + number))
            done += 1
        yield Case(overrides, one, tuple(results))


def builder(assumptions: Assumptions, registry: Registry) -> Callable[[], Scheduler]:
    """Makes schedulers as a run with these settings does."""
    schedule = assumptions.schedule

    def bound(kind: str, name: str, params: dict[str, object]) -> Callable[..., object]:
        where = f"{kind.removesuffix('s')} {name!r}"
        return parameters.bind(registry.get(kind, name), params, where=where)

    mixture = bound("mixtures", schedule.mixture.name, schedule.mixture.params)
    flow = bound("flow_controls", schedule.flow_control.name, schedule.flow_control.params)

    def build() -> Scheduler:
        return scheduler_of(
            assumptions.quotas,
            schedule,
            mixture=mixture,  # type: ignore[arg-type]
            flow=flow,  # type: ignore[arg-type]
            sync_every=assumptions.sync.every,
            releases=assumptions.release_on_fallback,
        )

    return build
