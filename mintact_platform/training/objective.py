"""The contract of a loss: what its four parts are given, and how a preset names them.

A loss is advantage × objective × correction, plus optional terms, summed under the response mask
and divided by a normaliser S. Each part is a plain function found by name. Imports no torch: the
functions bring it.

Shapes: `rows` are trajectories (or their segments), `tokens` the *supervised* tokens of a row in
order, padded on the right; prompts, images and other unsampled tokens are never in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mintact_platform.errors import ConfigurationError, PluginError, about, near_match
from mintact_platform.registry.parameters import bind
from mintact_platform.registry.signatures import takes

if TYPE_CHECKING:
    from torch import Tensor

    from mintact_platform.registry.names import Registry

EXTRAS = ("entropy", "reference_logprobs")
"""Inputs that cost something; computed only for an objective that declares them."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Habits:
    """What an objective declares about itself.

    Attributes:
        needs: members of `EXTRAS` it reads.
        correction: `"own"` when it corrects for the rollout policy itself, so that no second
            correction may be configured.
        micro_batch_invariant: False when a token's surrogate depends on other rows of the batch;
            the trainer then evaluates it on the whole update at once.
    """

    needs: frozenset[str] = frozenset()
    correction: Literal["any", "own"] = "any"
    micro_batch_invariant: bool = True


def objective(
    *,
    needs: Iterable[str] = (),
    correction: Literal["any", "own"] = "any",
    micro_batch_invariant: bool = True,
) -> Callable[[_Function], _Function]:
    """Declare extra inputs and habits of an objective; a plain one needs no decorator.

    Example:
        >>> @objective(needs={"entropy"})
        ... def bonus(batch, *, weight: float = 0.01):
        ...     return -weight * batch.entropy

    Raises:
        ConfigurationError: an unknown extra input.
    """
    habits = Habits(frozenset(needs), correction, micro_batch_invariant)
    for name in sorted(habits.needs - set(EXTRAS)):
        raise ConfigurationError(
            f"unknown extra input {name!r}", where="objective", next=near_match(name, EXTRAS)
        )

    def declare(function: _Function) -> _Function:
        function.__dict__["mintact_habits"] = habits
        return function

    return declare


def habits_of(function: Callable[..., Any]) -> Habits:
    """What the function declared; defaults for a plain one."""
    habits: Habits = getattr(function, "mintact_habits", Habits())
    return habits


@dataclass(frozen=True, eq=False)
class LossBatch:
    """What an objective reads. Tensors are `[rows, tokens]` unless said otherwise.

    Attributes:
        logprobs: ℓ = log π_θ, the only one with a gradient.
        proximal_logprobs: log π_prox.
        rollout_logprobs: log π_roll, recorded at generation.
        advantages: Â.
        loss_mask: bool, true on supervised tokens; all other tensors are 0 elsewhere.
        group: int64 `[rows]`, equal for rows of one group.
        trajectory: int64 `[rows]`, equal for segments of one trajectory.
        domain: int64 `[rows]`, index into `domains`.
        domains: domain names.
        rewards: `[rows]`.
        versions: int64, weight version that sampled the token; None when unknown.
        deployed: version of θ^(deployed).
        extras: the declared extra inputs by name.
    """

    logprobs: Tensor
    proximal_logprobs: Tensor
    rollout_logprobs: Tensor
    advantages: Tensor
    loss_mask: Tensor
    group: Tensor
    trajectory: Tensor
    domain: Tensor
    domains: tuple[str, ...] = ("",)
    rewards: Tensor | None = None
    versions: Tensor | None = None
    deployed: int = -1
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def entropy(self) -> Tensor:
        """Entropy of π_θ at each token, with a gradient. Declare `needs={"entropy"}`."""
        return self._extra("entropy")

    @property
    def reference_logprobs(self) -> Tensor:
        """Log π of the weights the run started from. Declare `needs={"reference_logprobs"}`."""
        return self._extra("reference_logprobs")

    def _extra(self, name: str) -> Tensor:
        if name not in self.extras:
            raise ConfigurationError(
                f"{name} is not computed", next=f"declare it: @objective(needs={{{name!r}}})"
            )
        return self.extras[name]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_no_field(self, name))


@dataclass(frozen=True, eq=False)
class RewardBatch:
    """What an advantage and a normaliser read: one row a trajectory. Tensors are float64 `[rows]`.

    Attributes:
        rewards: R; 0 where not live.
        reward_parts: named parts of the reward.
        group: int64, equal for rows of one group.
        domain: domain of each row.
        live: bool; masked rollouts are no part of any statistic.
        lengths: supervised tokens |y|.
        members: trajectories of the update as planned: N a group, failed ones included.
        length_cap: L_cap, one constant a run.
        turn_rewards: one tuple a row, empty where the judge gives none.
        turns: for each row, the turn of each of its supervised tokens.
    """

    rewards: Tensor
    group: Tensor
    live: Tensor
    lengths: Tensor
    domain: tuple[str, ...]
    members: int
    length_cap: int
    reward_parts: Mapping[str, Tensor] = field(default_factory=dict)
    turn_rewards: Sequence[tuple[float, ...]] = ()
    turns: Sequence[Sequence[int]] = ()

    @cached_property
    def token_mask(self) -> Tensor:
        """Which of `[rows, tokens]` are the |y| supervised tokens of a row, bool."""
        width = int(self.lengths.max()) if len(self.lengths) else 0
        places = self.group.new_tensor(range(width))
        return places < self.lengths[:, None]

    @cached_property
    def turn_of_token(self) -> Tensor:
        """int64 `[rows, tokens]`: the turn that sampled the token; -1 on padding."""
        width = max((len(row) for row in self.turns), default=0)
        padded = [[*row, *[-1] * (width - len(row))] for row in self.turns]
        return self.group.new_tensor(padded).reshape(len(padded), width)

    def group_sum(self, x: Tensor) -> Tensor:
        """For each row, the sum of x `[rows]` over the live rows of its group."""
        member = (self.group[:, None] == self.group) & self.live
        return x.expand(member.shape).where(member, 0.0).sum(1)

    def group_mean(self, x: Tensor) -> Tensor:
        """For each row, the mean of x `[rows]` over the live rows of its group; 0 without any."""
        return self.group_sum(x) / self.group_sum(x.new_ones(x.shape)).clamp(min=1)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_no_field(self, name))


@dataclass(frozen=True)
class Preset:
    """A named combination.

    Attributes:
        advantage: name of the part; so are the next three.
        objective: per-token surrogate.
        correction: importance weight against the rollout policy.
        normaliser: S.
        params: parameters of the parts, by part.
        terms: objectives added to the loss, with their parameters.
        about: one line: what it is and where it was published.

    Example:
        >>> Preset("mintact", "mintact", "truncate", params={"correction": {"cap": 2.0}})
        ... # doctest: +ELLIPSIS
        Preset(advantage='mintact', ...)
    """

    advantage: str
    objective: str
    correction: str = "none"
    normaliser: str = "fixed"
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    terms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True)
class LossParts:
    """The functions of a run's loss, parameters bound, with the names they were found by.

    Attributes:
        advantage: Â, `[rows]` or `[rows, tokens]`.
        objective: the surrogate `[rows, tokens]`, or a pair of it and its metrics.
        correction: the weight `[rows, tokens]`, or a pair of it and its metrics.
        normaliser: S, one number or one a trajectory `[rows]`.
        names: of the four parts.
        habits: of the objective and the terms together.
        terms: by name, objectives that are added without the correction's weight.
    """

    advantage: Callable[[RewardBatch], Tensor]
    objective: Callable[[LossBatch], Any]
    correction: Callable[[Tensor, Tensor, Tensor], Any]
    normaliser: Callable[[RewardBatch], Any]
    names: Mapping[str, str] = field(default_factory=dict)
    habits: Habits = Habits()
    terms: Mapping[str, Callable[[LossBatch], Any]] = field(default_factory=dict)


def preset_of(registry: Registry, name: str) -> Preset:
    """The preset of that name.

    Raises:
        PluginError: nobody registers it, or what is registered is no preset.
    """
    preset = registry.get("presets", name)
    if not isinstance(preset, Preset):
        what = f"preset {name!r} is a {type(preset).__name__}"
        raise PluginError(what, next="it has to be a mintact_platform.training.objective.Preset")
    return preset


def compose(registry: Registry, section: Mapping[str, Any]) -> LossParts:
    """Find and bind the parts that an `[objective]` section names.

    Args:
        registry: where names are looked up.
        section: the section as JSON values; a part given there replaces the preset's.

    Raises:
        PluginNotFound: a name nobody registers.
        PluginError: a part that cannot be called as one.
        ConfigurationError: a wrong parameter, a second correction, a term named twice.
    """
    with about("objective.preset"):
        preset = preset_of(registry, section.get("preset", "mintact"))
    names: dict[str, str] = {}
    bound: dict[str, Callable[..., Any]] = {}
    habits = Habits()
    for part in _GIVEN:
        choice = section.get(part)
        names[part] = choice["name"] if choice else getattr(preset, part)
        params = dict(choice.get("params", {}) if choice else preset.params.get(part, {}))
        key = f"objective.{part if choice else 'preset'}"
        if part == "objective" and section.get("params"):
            params, key = params | section["params"], "objective.params"
        target, bound[part] = _part(registry, part, names[part], params, key=key)
        habits = habits_of(target) if part == "objective" else habits
    if habits.correction == "own" and names["correction"] != "none":
        raise ConfigurationError(
            f"objective {names['objective']!r} corrects for the rollout policy itself",
            where=f"correction {names['correction']!r}",
            next='set objective.correction = "none"',
        )
    terms = {}
    for name, given in _terms(preset, section).items():
        target, terms[name] = _part(registry, "term", name, given, key="objective.terms")
        habits = _together(habits, habits_of(target))
    return LossParts(**bound, names=names, habits=habits, terms=terms)


_GIVEN = {
    "advantage": ("batch",),
    "objective": ("batch",),
    "correction": ("proximal_logprobs", "rollout_logprobs", "loss_mask"),
    "normaliser": ("batch",),
}
"""What each part is called with."""


def _part(
    registry: Registry, part: str, name: str, params: Mapping[str, Any], *, key: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A part as it is registered, and with its parameters bound."""
    kind = "objective" if part == "term" else part
    where, given = f"{part} {name!r}", _GIVEN[kind]
    with about(key):
        target = registry.get(f"{kind}s", name)
        function = bind(target, params, where=where)
        if not takes(function, len(given)):
            raise PluginError(
                f"cannot be called with ({', '.join(given)})",
                where=where,
                next="its parameters are keyword-only",
            )
    return target, function


def _terms(preset: Preset, section: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    chosen = section.get("terms")
    if chosen is None:
        return preset.terms
    names = [choice["name"] for choice in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{name!r} is named twice", where="objective.terms")
    return {choice["name"]: choice.get("params", {}) for choice in chosen}


def _together(one: Habits, other: Habits) -> Habits:
    """Habits of a sum: a term is never corrected, so what it says of corrections is no matter."""
    invariant = one.micro_batch_invariant and other.micro_batch_invariant
    return Habits(one.needs | other.needs, one.correction, invariant)


def fixed_normaliser(batch: RewardBatch) -> float:
    """A constant S, whatever failed or was cut.

        S = trajectories planned for the update × L_cap

    Source: MintAct; Liu et al. 2025, Dr. GRPO, arXiv 2503.20783.
    Trap: counting live rows instead makes 3 failures of 16 scale the others by 16/13.
    """
    return float(batch.members * batch.length_cap)


def _no_field(batch: LossBatch | RewardBatch, name: str) -> str:
    known = [f.name for f in fields(batch)]
    return f"{type(batch).__name__} has no field {name!r}; {near_match(name, known)}"
