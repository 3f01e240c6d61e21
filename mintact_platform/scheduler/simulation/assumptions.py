"""What a simulated run assumes, read from TOML and checked like a run file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mintact_platform import config
from mintact_platform.config import ScheduleSection, SyncSection
from mintact_platform.errors import ConfigurationError
from mintact_platform.overrides import apply_overrides
from mintact_platform.registry.numbers import plain_numbers


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    _numbers = plain_numbers


def _window(value: tuple[float, float]) -> tuple[float, float]:
    if not 0 <= value[0] < value[1]:
        raise ValueError(f"a window is [from, until] in seconds, got {list(value)}")
    return value


Window = Annotated[tuple[float, float], AfterValidator(_window)]
"""From, until; seconds of virtual time."""


def _curve(value: Any) -> Any:
    points = value if isinstance(value, (list, tuple)) else [(0, value)]
    steps = [step for step, _ in points]
    if steps != sorted(set(steps)) or not points:
        raise ValueError("a rate over steps is [[step, rate], …] with growing steps")
    if not all(0 <= rate <= 1 for _, rate in points):
        raise ValueError("a rate lies between 0 and 1")
    return value


Rate = Annotated[float | list[tuple[float, float]], AfterValidator(_curve)]
"""A share, or `[[step, share], …]` between which it changes evenly with the trainer's steps."""


class DomainAssumptions(_Section):
    """What a domain is like. A group is one task's rollouts."""

    quota: int = Field(default=16, ge=0)
    """q_d, groups in a batch."""
    seconds: float = Field(gt=0)
    """Mean duration of a group, log-normal."""
    sigma: float = Field(default=0.6, ge=0)
    """Of the logarithm of the duration."""
    producers: int = Field(default=8, gt=0)
    """Groups it can have in flight."""
    informative: Rate = 0.5
    """Share of judged groups that enter the queue."""
    success: Rate | None = None
    """Success of one rollout; where given, `informative` follows from it and `group_size`."""
    failures: float = Field(default=0.0, ge=0, le=1)
    """Share of groups dropped because too few rollouts lived."""
    tokens: float = Field(default=0.0, ge=0)
    """Mean tokens of a group, log-normal like the duration."""
    starved: list[Window] = Field(default_factory=list)
    """Nothing that ends in it is informative."""
    outages: list[Window] = Field(default_factory=list)
    """Its environments are gone: what runs is dropped, nothing begins."""


class TrainerAssumptions(_Section):
    """How long the trainer takes."""

    seconds: float = Field(default=0.0, ge=0)
    """Of a step, whatever is in it."""
    seconds_per_token: float = Field(default=0.0, ge=0)
    """Added for each token of the batch."""
    sigma: float = Field(default=0.0, ge=0)
    """Of the logarithm of a step's duration."""
    push_seconds: float = Field(default=0.0, ge=0)
    """Of one push; the trainer waits for it."""
    evaluation_every: int = Field(default=0, ge=0)
    """Steps between evaluations; 0 makes none."""
    evaluation_seconds: float = Field(default=0.0, ge=0)
    """Of one evaluation; the trainer waits for it and no group begins."""


class Assumptions(_Section):
    """A simulated run. Groups are counted, durations are seconds."""

    steps: int = Field(default=150, gt=0)
    """Trainer steps."""
    hours: float | None = Field(default=None, gt=0)
    """Virtual time after which it stops, with fewer steps if need be."""
    seed: int = Field(default=0, ge=0)
    active: int | None = Field(default=None, gt=0)
    """Groups in flight over all domains; None leaves it to each domain's producers."""
    group_size: int = Field(default=8, gt=1)
    """N, rollouts of a group."""
    domains: dict[str, DomainAssumptions]
    trainer: TrainerAssumptions = TrainerAssumptions()
    schedule: ScheduleSection = ScheduleSection()
    """As in a run file."""
    sync: SyncSection = SyncSection()
    """As in a run file."""
    pauses: list[Window] = Field(default_factory=list)
    """The model servers stand still: what runs ends so much later."""
    kills: list[float] = Field(default_factory=list)
    """When everything is killed and resumed."""
    restart_seconds: float = Field(default=60.0, ge=0)
    """From a kill until rollouts begin again; steps since the last push are replayed on top."""
    release_on_fallback: bool = True
    """Off only to show that a run can stand still without."""

    @model_validator(mode="after")
    def _whole(self) -> Assumptions:
        if not self.batch_groups:
            raise ValueError("no domain has a quota; give one of domains.*.quota a number")
        if not (self.trainer.seconds or self.trainer.seconds_per_token):
            raise ValueError("trainer.seconds is missing: how long does a step take?")
        return self

    @property
    def quotas(self) -> dict[str, int]:
        """q_d by domain."""
        return {name: domain.quota for name, domain in self.domains.items()}

    @property
    def batch_groups(self) -> int:
        """B, groups of a batch."""
        return sum(self.quotas.values())


def load(path: Path, overrides: Sequence[str] = ()) -> Assumptions:
    """Read a file of assumptions and apply `key=value` overrides.

    Raises:
        ConfigurationError: missing file, broken TOML, unknown key, wrong type.
    """
    return parse(config.read(path, overrides, what="file of assumptions"), where=str(path))


def parse(values: Mapping[str, Any], *, where: str = "assumptions") -> Assumptions:
    """Check merged values.

    Raises:
        ConfigurationError: one line for the first mistake, with the near match for a key.
    """
    try:
        return Assumptions.model_validate(dict(values))
    except ValidationError as error:
        raise config.first_mistake(error, where, Assumptions) from None


def changed(assumptions: Assumptions, overrides: Sequence[str]) -> Assumptions:
    """The assumptions with `key=value` overrides applied."""
    values = assumptions.model_dump(mode="python", exclude_none=True)
    apply_overrides(values, overrides)
    return parse(values, where=", ".join(overrides) or "assumptions")


def sweep(wishes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every combination of `key=a,b,c` wishes, as overrides; one empty one without any.

    Example:
        >>> list(sweep(["a=1,2", "b=3"]))
        [('a=1', 'b=3'), ('a=2', 'b=3')]
    """
    choices = []
    for wish in wishes:
        key, separator, values = wish.partition("=")
        if not separator or not key or not all(values.split(",")):
            raise ConfigurationError(
                f"cannot read {wish!r}",
                where="--sweep",
                next="write key=value,value, e.g. domains.web.quota=8,16",
            )
        choices.append([f"{key}={value}" for value in values.split(",")])
    yield from itertools.product(*choices)


def rate_at(rate: float | Sequence[tuple[float, float]], step: float) -> float:
    """A rate at a step; before its first point and after its last one it stays as there."""
    if isinstance(rate, (int, float)):
        return float(rate)
    before = [point for point in rate if point[0] <= step]
    after = [point for point in rate if point[0] > step]
    if not before or not after:
        return (before or after)[-1 if before else 0][1]
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 + (y1 - y0) * (step - x0) / (x1 - x0)


def informative_share(domain: DomainAssumptions, size: int, step: float) -> float:
    """Share of judged groups of so many rollouts that are informative at a step."""
    if domain.success is None:
        return rate_at(domain.informative, step)
    p = rate_at(domain.success, step)
    return 1.0 - p**size - (1.0 - p) ** size
