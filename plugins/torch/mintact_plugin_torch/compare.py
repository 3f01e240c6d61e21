"""Two losses at the same weights: their values, their gradients and the angle between these."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mintact_platform.training.loss import Loss, summarise
from mintact_platform.training.trainer import Comparison, Measure, StepReport
from mintact_plugin_torch.reading import Reading, Ready
from mintact_plugin_torch.update import Slope

Gradient = list[Tensor | None]


class Side:
    """One of the two losses over the updates of a step.

    Attributes:
        losses: of all micro-batches so far.
        updates: measured.
        norms: largest gradient norm of an update, by domain.
    """

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.updates = 0
        self.norms: dict[str, float] = {}

    def take(self, losses: list[Loss], squares: Mapping[str, float]) -> None:
        """One more update, with the squared gradient norm of each domain."""
        self.losses += losses
        self.updates += 1
        for domain, square in squares.items():
            self.norms[domain] = max(self.norms.get(domain, 0.0), square**0.5)

    def measure(self) -> Measure:
        """The step's numbers, the loss a mean over updates as in `StepReport`."""
        count = max(1, self.updates)
        shares: dict[str, float] = {}
        for loss in self.losses:
            for index, name in enumerate(loss.domains):
                own = loss.rows[loss.row_domain == index]
                shares[name] = shares.get(name, 0.0) + float(own.double().sum()) / count
        whole = sum(float(loss.value) for loss in self.losses) / count
        return Measure({**shares, "": whole}, self.norms, summarise(self.losses))


class Beside:
    """Measures another loss beside the trainer's own, update by update.

    The gradient of a domain is what comes through its tokens, so that the domains' add up to the
    whole, also where a token's loss depends on other rows.

    Args:
        model: whose parameters both gradients are of.
        own: the batch as the trainer's loss reads it.
        other: the batch as the other one reads it.
    """

    def __init__(self, model: nn.Module, own: Reading, other: Reading) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._own, self._other = own, other
        self._sides = Side(), Side()
        self._dots: dict[str, list[float]] = {}

    def measure(self, index: int) -> None:
        """Both losses at the present θ, before the update of this index; θ stays as it is."""
        readies = self._own.ready(index), self._other.ready(index)
        if readies[0] is None or readies[1] is None:
            return
        # both see the random numbers that the update itself is about to see
        with torch.random.fork_rng(devices=[]):
            state = torch.get_rng_state()
            one = _Evaluated(readies[0])
            torch.set_rng_state(state)
            two = _Evaluated(readies[1])
        products = self._products(one, two)
        for domain, found in products.items():
            sums = self._dots.setdefault(domain, [0.0, 0.0, 0.0])
            self._dots[domain] = [a + b for a, b in zip(sums, found, strict=True)]
        self._sides[0].take(one.losses, {name: p[1] for name, p in products.items()})
        self._sides[1].take(two.losses, {name: p[2] for name, p in products.items()})

    def comparison(self, report: StepReport) -> Comparison:
        """What was measured over the step."""
        cosine = {
            domain: dot / (one * two) ** 0.5
            for domain, (dot, one, two) in self._dots.items()
            if one > 0 and two > 0
        }
        own, other = (side.measure() for side in self._sides)
        return Comparison(report, own, other, cosine)

    def _products(self, one: _Evaluated, two: _Evaluated) -> dict[str, tuple[float, float, float]]:
        """⟨g, h⟩, ⟨g, g⟩ and ⟨h, h⟩ of the two gradients, by domain and over all."""
        found: dict[str, tuple[float, float, float]] = {}
        empty: Gradient = [None] * len(self._parameters)
        whole = empty, empty
        for index, domain in enumerate(self._own.domains):
            gradients = self._gradient(one, index), self._gradient(two, index)
            found[domain] = _inner(*gradients)
            whole = _added(whole[0], gradients[0]), _added(whole[1], gradients[1])
        return {**found, "": _inner(*whole)}

    def _gradient(self, evaluated: _Evaluated, domain: int) -> Gradient:
        """What comes through the tokens of a domain; the parameters are left without any."""
        for parameter in self._parameters:
            parameter.grad = None
        evaluated.push_back(domain)
        gradient = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        return gradient


class _Evaluated:
    """A loss whose slope ∂L/∂ℓ is known and whose gradient is yet to be pushed back."""

    def __init__(self, ready: Ready) -> None:
        self._accumulator, self._batches = ready
        self.losses, self._slopes = self._accumulator.evaluate(self._batches)

    def push_back(self, domain: int) -> None:
        for batch, slope in zip(self._batches, self._slopes, strict=True):
            chosen = batch.domain == domain
            if chosen.any():
                own = [None if part is None else part * chosen[:, None] for part in slope]
                self._accumulator.push_back(batch, Slope(*own))


def _added(one: Gradient, two: Gradient) -> Gradient:
    return [b if a is None else a if b is None else a + b for a, b in zip(one, two, strict=True)]


def _inner(one: Gradient, two: Gradient) -> tuple[float, float, float]:
    return _dot(one, two), _dot(one, one), _dot(two, two)


def _dot(one: Gradient, two: Gradient) -> float:
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
    return sum(float((a.double() * b.double()).sum()) for a, b in pairs)
