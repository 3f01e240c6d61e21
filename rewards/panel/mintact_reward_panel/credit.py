"""From one number a turn to turn rewards that add up to the rollout's reward. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum


def shared(raw: Sequence[float], reward: float) -> tuple[float, ...]:
    """Split a reward over the turns in proportion to their numbers; negative ones get nothing.

    Without a positive number the last turn gets all of it.

    Args:
        raw: one number a turn.
        reward: what is split; the result adds up to it.
    """
    if not raw:
        return ()
    merit = [max(0.0, value) for value in raw]
    whole = fsum(merit)
    if whole <= 0:
        return (*(0.0 for _ in raw[1:]), reward)
    return _adding_up([reward * value / whole for value in merit], reward)


def added(raw: Sequence[float], reward: float, weight: float) -> tuple[float, ...]:
    """Each turn's weighted number, and the whole reward on top at the last turn.

    Args:
        raw: one number a turn.
        reward: of the outcome.
        weight: of the turns' numbers. The result adds up to `reward + weight * sum(raw)`.
    """
    if not raw:
        return ()
    scaled = [weight * value for value in raw]
    scaled[-1] += reward
    return tuple(scaled)


def differences(progress: Sequence[float]) -> tuple[float, ...]:
    """What each turn added to a running total that began at 0."""
    before = [0.0, *progress]
    return tuple(after - first for first, after in zip(before, progress, strict=False))


def _adding_up(values: Sequence[float], total: float) -> tuple[float, ...]:
    """The same with the last rounding error on the largest value."""
    largest = max(range(len(values)), key=lambda place: abs(values[place]))
    rest = fsum(value for place, value in enumerate(values) if place != largest)
    return tuple(total - rest if place == largest else v for place, v in enumerate(values))
