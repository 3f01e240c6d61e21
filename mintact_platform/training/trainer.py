"""The trainer protocol: what crosses the border to the trainer's process. Imports no torch.

A message holds ids and paths, never arrays. One call at a time, each with a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class RowRef:
    """A stored trajectory in a batch.

    Attributes:
        id: trajectory id.
        path: its safetensors file.
        group: group id.
        domain: domain name.
        reward: the judge's reward; 0.0 when not live.
        live: whether it takes part in statistics and loss; masked rollouts are not.
        reward_parts: named parts of the reward.
        turn_rewards: one number a turn, where the judge gives them.
    """

    id: str
    path: str
    group: str
    domain: str
    reward: float
    live: bool = True
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    turn_rewards: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One trainer step: one batch, `updates` optimiser updates.

    Attributes:
        step: 1-based.
        rows: members of all groups in order, masked ones included.
        prox_version: version of θ^(deployed) that ℓ_prox is recomputed with.
        seed: of this step.
    """

    step: int
    rows: tuple[RowRef, ...]
    prox_version: int
    seed: int


@dataclass(frozen=True, slots=True)
class SupervisedRequest:
    """One supervised step on rows stored in the same format as trajectories.

    Attributes:
        step: 1-based.
        rows: safetensors paths of `datasets.supervised` rows.
        lr: learning rate of this step.
        params: e.g. `{"guidance": 0.3}`.
    """

    step: int
    rows: tuple[str, ...]
    lr: float
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step did.

    Attributes:
        step: as asked.
        loss: the summed, normalised loss.
        grad_norm: before clipping.
        metrics: `{metric: {domain: value}}`; domain "" is over all.
        tokens: supervised tokens.
        seconds: wall time in the trainer.
    """

    step: int
    loss: float
    grad_norm: float
    metrics: Mapping[str, Mapping[str, float]]
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A loss at weights that it did not move. Mappings are by domain; domain "" is over all.

    Attributes:
        loss: a domain's share of the summed, normalised loss.
        grad_norm: of the gradient that comes through a domain's tokens, before clipping.
        metrics: `{metric: {domain: value}}`, as `StepReport.metrics`.
    """

    loss: Mapping[str, float]
    grad_norm: Mapping[str, float]
    metrics: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A step, and what two losses wanted at the weights it was taken from.

    Attributes:
        report: of the step, which the trainer's own loss took.
        own: the trainer's own loss.
        other: the loss compared with it.
        cosine: of the angle between the two gradients, by domain; a domain where one of them is
            zero has none.
    """

    report: StepReport
    own: Measure
    other: Measure
    cosine: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrainerSpec:
    """What a trainer gets at its start. Plain JSON values.

    Attributes:
        model_path: weights to start from, Hugging Face layout.
        run_directory: images, trajectories, checkpoints and weights live in it.
        trainer: the `[trainer]` section.
        objective: the `[objective]` section.
        image_area: area cap of images.
        incarnation: of the scheduler; carried by checkpoints.
        group_size: N.
        seed: of the run.
    """

    model_path: str
    run_directory: str
    trainer: Mapping[str, Any]
    objective: Mapping[str, Any]
    image_area: int
    incarnation: int
    group_size: int
    seed: int


class Trainer(Protocol):
    """A trainer backend; lives in the trainer process, called synchronously, one call at a time.

    Built from its keyword-only parameters (`trainer.params`).
    """

    def start(self, spec: TrainerSpec) -> None:
        """Load the model; θ^(deployed) = θ, version 0."""
        ...

    def step(self, request: StepRequest) -> StepReport:
        """One batch. Refuses a `prox_version` that is not the deployed one."""
        ...

    def supervised(self, request: SupervisedRequest) -> StepReport:
        """One cross-entropy step."""
        ...

    def score(self, path: str, *, temperature: float, noise: float = 0.0) -> dict[str, Any]:
        """Log-probabilities of a stored trajectory's supervised tokens under θ^(deployed).

        Returns:
            `{"logprobs": [[float, …] per segment], "tokens": [expanded length per segment]}`.
            `noise` > 0 scores with the weights `export(noise=…)` writes instead.
        """
        ...

    def export(self, version: int, path: str, *, noise: float = 0.0) -> None:
        """Write θ (plus reproducible relative noise) in Hugging Face layout to `path`."""
        ...

    def confirm(self, version: int) -> None:
        """All servers serve `version`: θ^(deployed) becomes the θ exported last."""
        ...

    def save(self, path: str, *, step: int) -> None:
        """Checkpoint: θ, θ^(deployed) and its version, optimiser, schedule, random state."""
        ...

    def load(self, path: str) -> int:
        """Restore a checkpoint; returns the last step it contains."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


T = TypeVar("T", bound=Callable[..., Any])


def supervised_params(step: Callable[..., None]) -> Callable[[T], T]:
    """Declare of a trainer, class or factory, what `sft.params` may hold.

    They are checked before a supervised stage begins; without it, by its first step.

    Args:
        step: its keyword-only arguments are what a supervised step takes, `betas` among them.

    Example:
        >>> def step(*, betas: tuple[float, float], label_smoothing: float = 0.0) -> None: ...
        >>> @supervised_params(step)
        ... class Smoothing: ...
    """

    def declare(target: T) -> T:
        target.supervised_params = step  # type: ignore[attr-defined]
        return target

    return declare


class ComparingTrainer(Trainer, Protocol):
    """A trainer that can measure another loss beside its own: `mintact replay` needs one."""

    def compare(self, request: StepRequest, objective: Mapping[str, Any]) -> Comparison:
        """As `step`, bit for bit; before each update, both losses are measured.

        Args:
            request: the step.
            objective: an `[objective]` section.
        """
        ...
