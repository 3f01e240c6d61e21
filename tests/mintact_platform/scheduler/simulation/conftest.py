"""The two settings of the table of flow controls, and what runs them."""

from __future__ import annotations

import math

import pytest

from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.simulation.assumptions import parse
from mintact_platform.scheduler.simulation.simulate import simulate

MEAN = math.exp(0.6**2 / 2)
"""The table's durations are medians; ours are means, larger by this at σ = .6."""

TWO = {"fast": (60, 0.6), "slow": (300, 0.5)}
FOUR = {"tools": (30, 0.6), "web": (60, 0.5), "desktop": (180, 0.5), "phone": (360, 0.4)}


@pytest.fixture(scope="session")
def registry():
    return Registry.discover()


@pytest.fixture
def assumptions():
    """Two domains at 1:5 or four at 1:12; a batch of 64 groups, 120 producers."""

    def make(
        domains=2, *, steps=30, train_seconds=150.0, sync=4, sigma=0.6, changes=(), **schedule
    ):
        chosen = TWO if domains == 2 else FOUR
        values = {
            "steps": steps,
            "trainer": {"seconds": train_seconds},
            "domains": {
                name: {
                    "quota": 64 // domains,
                    "seconds": median * MEAN,
                    "sigma": sigma,
                    "informative": informative,
                    "producers": 120 // domains,
                }
                for name, (median, informative) in chosen.items()
            },
            "sync": {"every": sync},
            "schedule": {
                "fallback_after": 1e9, "on_stale": "train", "max_staleness": 99, **schedule,
            },
        }  # fmt: skip
        for key, value in changes:
            place = values
            *parents, last = key.split(".")
            for parent in parents:
                place = place[parent]
            place[last] = value
        return parse(values)

    return make


@pytest.fixture
def run(assumptions, registry):
    """Simulate one setting with so many seeds."""

    def start(*words, seeds=1, **options):
        one = assumptions(*words, **options)
        return [simulate(one, registry, seed=seed) for seed in range(seeds)]

    return start
