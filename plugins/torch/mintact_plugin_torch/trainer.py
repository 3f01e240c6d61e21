"""The torch trainer: one process, one device, float32."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mintact_platform.datasets.shards import read_rows
from mintact_platform.errors import TrainerError
from mintact_platform.records.trajectory import Segment
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
from mintact_platform.storage import trajectories
from mintact_platform.storage.images import ImageStore
from mintact_platform.training.loss import Loss, summarise
from mintact_platform.training.objective import LossParts, compose
from mintact_platform.training.trainer import (
    Comparison,
    StepReport,
    StepRequest,
    SupervisedRequest,
    TrainerSpec,
)
from mintact_plugin_torch import checkpoint, weights
from mintact_plugin_torch.compare import Beside
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.optim import Optimiser, warmed_up
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.reading import Anchors, Reading
from mintact_plugin_torch.settings import supervised_step
from mintact_plugin_torch.supervised import cross_entropy


class TorchTrainer:
    """A trainer on plain torch.

    Args:
        device: where the model lives.
        threads: of torch; one is the fastest for small models on a busy machine, and repeats
            bit for bit.
    """

    def __init__(self, *, device: str = "cpu", threads: int = 1) -> None:
        self.device = torch.device(device)
        torch.set_num_threads(threads)

    def start(self, spec: TrainerSpec) -> None:
        """Load the model; θ^(deployed) = θ, version 0."""
        self.spec, self.run = spec, Path(spec.run_directory)
        self.parts = compose(Registry.discover(), spec.objective)
        self.policy = Policy.load(spec.model_path)
        self.policy.model.to(self.device)
        self.forward = Forward(self.policy, ImageStore(self.run / "images"), self.device)
        self.optimiser = Optimiser(
            self.policy.model,
            betas=tuple(spec.trainer["betas"]),
            weight_decay=spec.trainer["weight_decay"],
            grad_clip=spec.trainer["grad_clip"],
        )
        self.deployed, self.deployed_version = weights.host_copy(self.policy.model), 0
        needs = self.parts.habits.needs
        self.reference = self.deployed if "reference_logprobs" in needs else None
        self.exported: tuple[int, weights.Weights] | None = None
        self.last_step, self.broken = 0, False
        torch.manual_seed(spec.seed)

    def step(self, request: StepRequest) -> StepReport:
        """One batch, `trainer.updates` optimiser updates.

        Raises:
            TrainerError: a wrong prox version, a step trained already, a gradient that is not
                finite.
        """
        begin = time.perf_counter()
        return self._step(request, self._reading(request), begin)

    def compare(self, request: StepRequest, objective: Mapping[str, Any]) -> Comparison:
        """As `step`, bit for bit; before each update, both losses are measured.

        Raises:
            ConfigurationError: an objective that cannot be composed.
            TrainerError: as `step`.
        """
        begin = time.perf_counter()
        parts = compose(Registry.discover(), objective)
        spec = replace(self.spec, objective=objective)
        own = self._reading(request)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(request.seed)
            other = Reading(request, spec, parts, self.forward, self._anchors(parts))
        beside = Beside(self.policy.model, own, other)
        return beside.comparison(self._step(request, own, begin, beside.measure))

    def supervised(self, request: SupervisedRequest) -> StepReport:
        """One cross-entropy step on rows of `datasets.supervised`.

        Raises:
            ConfigurationError: an unknown parameter.
            TrainerError: a gradient that is not finite.
        """
        begin = time.perf_counter()
        chosen = check(supervised_step, request.params, where="supervised step")
        try:
            result = cross_entropy(
                self.forward,
                read_rows(request.rows),
                guidance=chosen["guidance"],
                micro_batch_tokens=self.spec.trainer["micro_batch_tokens"],
            )
            norm = self.optimiser.step(request.lr, chosen["betas"])
        finally:
            self.optimiser.zero_grad()
            self.forward.forget()
        return StepReport(
            step=request.step,
            loss=result.loss,
            grad_norm=norm,
            metrics=result.metrics,
            tokens=result.tokens,
            seconds=time.perf_counter() - begin,
        )

    def score(self, path: str, *, temperature: float, noise: float = 0.0) -> dict[str, Any]:
        """Log-probabilities of a stored trajectory's supervised tokens, segment by segment.

        Under θ^(deployed), which the servers serve; with noise, under what `export` then writes.
        """
        segments = trajectories.load(self.run / path).segments
        model = self.policy.model
        served = weights.perturbed(model, noise, self.spec.seed) if noise else self.deployed
        with torch.no_grad(), weights.swapped(model, served):
            logprobs = [self._score(segment, temperature) for segment in segments]
        self.forward.forget()
        return {"logprobs": logprobs, "tokens": [self.forward.length(s) for s in segments]}

    def export(self, version: int, path: str, *, noise: float = 0.0) -> None:
        """Write θ in Hugging Face layout; `noise` perturbs what is written, never θ."""
        model = self.policy.model
        exported = weights.host_copy(model)
        written = weights.perturbed(model, noise, self.spec.seed) if noise else exported
        with weights.swapped(model, written), checkpoint.aside(self.run / path) as directory:
            self.policy.save(directory)
        self.exported = (version, exported)

    def confirm(self, version: int) -> None:
        """θ^(deployed) becomes the θ exported last.

        Raises:
            TrainerError: that was another version.
        """
        if self.exported is None or self.exported[0] != version:
            last = "none" if self.exported is None else self.exported[0]
            raise TrainerError(
                f"version {version} was not exported last ({last} was)", where="trainer confirm"
            )
        self.deployed_version, self.deployed = self.exported
        self.exported = None

    def save(self, path: str, *, step: int) -> None:
        """Write a checkpoint."""
        checkpoint.write(
            self.run / path,
            checkpoint.Contents(
                checkpoint.State(
                    step,
                    self.deployed_version,
                    self.spec.incarnation,
                    bytes(torch.get_rng_state().tolist()).hex(),
                ),
                weights.host_copy(self.policy.model),
                self.deployed,
                self.optimiser.tensors(),
            ),
        )

    def load(self, path: str) -> int:
        """Restore a checkpoint; returns the last step it contains."""
        model = self.policy.model
        shapes = {name: p.shape for name, p in model.named_parameters()}
        contents = checkpoint.read(self.run / path, shapes=shapes)
        weights.put(model, contents.weights)
        self.optimiser.restore(dict(contents.optimiser))
        self.deployed = dict(contents.deployed)
        self.deployed_version = contents.state.deployed_version
        self.exported = None
        self.last_step, self.broken = contents.state.step, False
        torch.set_rng_state(
            torch.tensor(list(bytes.fromhex(contents.state.random)), dtype=torch.uint8)
        )
        return contents.state.step

    def close(self) -> None:
        """Nothing is held outside this process."""

    def _score(self, segment: Segment, temperature: float) -> list[float]:
        if not segment.mask.any():
            return []
        batch = self.forward.collate([segment], [temperature])
        scores: list[float] = self.forward.logprobs(batch)[0][batch.mask].tolist()
        return scores

    def _accept(self, request: StepRequest) -> None:
        where = f"trainer step {request.step}"
        if self.broken:
            raise TrainerError(
                "an earlier step failed between two updates", where=where, next="load a checkpoint"
            )
        if request.step <= self.last_step:
            raise TrainerError(
                f"is trained already, up to {self.last_step}", where=where, next="load a checkpoint"
            )
        if request.prox_version != self.deployed_version:
            raise TrainerError(
                f"asked for π_prox of version {request.prox_version}",
                where=where,
                next=f"version {self.deployed_version} is deployed",
            )

    def _reading(self, request: StepRequest) -> Reading:
        self._accept(request)
        torch.manual_seed(request.seed)
        return Reading(request, self.spec, self.parts, self.forward, self._anchors(self.parts))

    def _anchors(self, parts: LossParts) -> Anchors:
        reference = None
        if "reference_logprobs" in parts.habits.needs:
            if self.reference is None:
                self.reference = weights.host_copy(Policy.load(self.spec.model_path).model)
            reference = self.reference
        return Anchors(self.deployed, self.deployed_version, reference)

    def _step(
        self,
        request: StepRequest,
        reading: Reading,
        begin: float,
        before: Callable[[int], None] | None = None,
    ) -> StepReport:
        """Take a step; `before` is called with the number of each update before it."""
        norms: list[float] = []
        try:
            losses = self._train(request.step, reading, norms, before)
        except BaseException:
            self.broken = bool(norms)
            raise
        finally:
            self.optimiser.zero_grad()
            self.forward.forget()
        self.last_step = request.step
        return StepReport(
            step=request.step,
            loss=sum(float(loss.value) for loss in losses) / max(1, len(norms)),
            grad_norm=max(norms, default=0.0),
            metrics=summarise(losses),
            tokens=sum(len(loss.domain) for loss in losses),
            seconds=time.perf_counter() - begin,
        )

    def _train(
        self,
        step: int,
        reading: Reading,
        norms: list[float],
        before: Callable[[int], None] | None,
    ) -> list[Loss]:
        """Every update in order; `norms` grows with each one that moved θ."""
        losses: list[Loss] = []
        for index in range(len(reading)):
            if before is not None:
                before(index)
            ready = reading.ready(index)
            if ready is None:
                continue
            losses += ready.accumulator.accumulate(ready.batches)
            lr = warmed_up(self.spec.trainer["lr"], step, self.spec.trainer["warmup"])
            norms.append(self.optimiser.step(lr))
        return losses
