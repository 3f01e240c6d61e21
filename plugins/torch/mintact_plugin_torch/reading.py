"""A recorded batch as one loss reads it; each update is made ready when its turn comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from mintact_platform.training.objective import LossParts
from mintact_platform.training.trainer import StepRequest, TrainerSpec
from mintact_plugin_torch import weights
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.step import prepare
from mintact_plugin_torch.update import Accumulator, MicroBatch, no_grad, proximal


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """Weights besides θ that a loss may look at.

    Attributes:
        deployed: θ^(deployed).
        version: of it.
        reference: weights the run started from, where the objective needs them.
    """

    deployed: weights.Weights
    version: int
    reference: weights.Weights | None


class Ready(NamedTuple):
    """An update whose micro-batches hold all that the loss reads besides ℓ."""

    accumulator: Accumulator
    batches: list[MicroBatch]


class Reading:
    """A step's updates under one loss.

    Made before the first update of the step moves θ: `prox = "current"` is about those weights.

    Args:
        request: the step.
        spec: whose `[objective]` section belongs to `parts`.
        parts: of the loss.
        forward: runs the model.
        anchors: other weights.
    """

    def __init__(
        self,
        request: StepRequest,
        spec: TrainerSpec,
        parts: LossParts,
        forward: Forward,
        anchors: Anchors,
    ) -> None:
        self.parts, self.forward, self.anchors = parts, forward, anchors
        self.prox = spec.objective["prox"]
        self._updates, self.domains = prepare(request, spec, parts, forward)
        if self.prox == "current":
            # later updates move away from the step's first θ
            self._updates[1:] = [
                update._replace(batches=self._own(update.batches)) for update in self._updates[1:]
            ]

    def __len__(self) -> int:
        """Number of updates."""
        return len(self._updates)

    def ready(self, index: int) -> Ready | None:
        """The update at the present θ; None when all its members are masked."""
        update = self._updates[index]
        if not update.batches:
            return None
        batches = self._references(self._proximal(update.batches))
        accumulator = Accumulator(
            self.forward, self.parts, update.S, self.domains, self.anchors.version
        )
        return Ready(accumulator, batches)

    def _proximal(self, batches: list[MicroBatch]) -> list[MicroBatch]:
        if batches[0].proximal is not None:
            return batches
        return proximal(self.forward, batches, self.prox, self.anchors.deployed)

    def _references(self, batches: list[MicroBatch]) -> list[MicroBatch]:
        if self.anchors.reference is None:
            return batches
        with weights.swapped(self.forward.policy.model, self.anchors.reference):
            return [replace(b, reference=no_grad(self.forward, b)) for b in batches]

    def _own(self, batches: list[MicroBatch]) -> list[MicroBatch]:
        return [replace(batch, proximal=no_grad(self.forward, batch)) for batch in batches]
