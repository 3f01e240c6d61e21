from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mintact_plugin_torch.trainer import TorchTrainer
from PIL import Image

from mintact_platform.config import ObjectiveSection, TrainerSection
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory
from mintact_platform.storage.images import ImageStore
from mintact_platform.storage.trajectories import TrajectoryStore
from mintact_platform.training.trainer import RowRef, StepRequest, TrainerSpec

IMAGE, TEXT = 5, range(40, 280)


class Run:
    """A run directory with recorded rollouts whose rollout log-probabilities fit the model."""

    def __init__(self, path: Path, model: Path) -> None:
        self.path, self.model = path, model
        self.images = ImageStore(path / "images")
        self.store = TrajectoryStore(path / "trajectories")

    def spec(self, trainer: dict[str, Any] | None = None, **objective: Any) -> TrainerSpec:
        settings = {"lr": 1e-3, "micro_batch_tokens": 512, **(trainer or {})}
        section = {"length_cap": 64, **objective}
        return TrainerSpec(
            model_path=str(self.model),
            run_directory=str(self.path),
            trainer=TrainerSection(**settings).model_dump(mode="json"),
            objective=ObjectiveSection(**section).model_dump(mode="json"),
            image_area=1 << 20,
            incarnation=1,
            group_size=4,
            seed=7,
        )

    def started(self, trainer: dict[str, Any] | None = None, **objective: Any) -> TorchTrainer:
        started = TorchTrainer()
        started.start(self.spec(trainer, **objective))
        return started

    def screenshot(self, rng: np.random.Generator, position: int) -> ImageSpan:
        width, height = 32 * int(rng.integers(1, 3)), 64
        pixels = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        digest = self.images.put(buffer.getvalue(), "png")
        return ImageSpan(digest, "png", position, width, height)

    def segment(self, rng: np.random.Generator, turns: int) -> Segment:
        ids: list[int] = list(rng.choice(TEXT, 6))
        mask = [False] * 6
        images = []
        for _ in range(turns):
            images.append(self.screenshot(rng, len(ids)))
            response = int(rng.integers(3, 9))
            ids += [IMAGE, *rng.choice(TEXT, 3), *rng.choice(TEXT, response)]
            mask += [False] * 4 + [True] * response
        return Segment(
            np.array(ids, np.int32),
            np.array(mask),
            np.zeros(len(ids), np.float32),
            np.where(mask, 0, -1).astype(np.int32),
            tuple(images),
        )

    def trajectory(
        self, name: str, seed: int, scorer: TorchTrainer | None, noise: float = 0.3
    ) -> Path:
        rng = np.random.default_rng(seed)
        segments = tuple(self.segment(rng, turns) for turns in rng.integers(1, 4, 1))
        task = Task("t", "goal", "mobile")
        trajectory = Trajectory(
            name, "g", 0, 0, task, Outcome.COMPLETED, segments=segments, temperature=0.7
        )
        path = self.store.save(trajectory)
        if scorer is None:
            return path
        scored = scorer.score(str(path), temperature=0.7)["logprobs"]
        with_logprobs = []
        for segment, values in zip(segments, scored, strict=True):
            logprobs = segment.logprobs.copy()
            logprobs[segment.mask] = values + rng.normal(0, noise, len(values))
            with_logprobs.append(replace(segment, logprobs=logprobs))
        return self.store.save(replace(trajectory, segments=tuple(with_logprobs)))

    def request(
        self,
        step: int = 1,
        groups: int = 3,
        scorer: TorchTrainer | None = None,
        prox_version: int = 0,
        noise: float = 0.3,
    ) -> StepRequest:
        rows = []
        for group in range(groups):
            for member in range(4):
                name = f"s{step}g{group}m{member}"
                live = (group, member) != (0, 2)
                path = self.trajectory(name, 1000 * step + 10 * group + member, scorer, noise)
                rows.append(
                    RowRef(
                        id=name,
                        path=str(path) if live else "",
                        group=f"s{step}g{group}",
                        domain=("mobile", "web")[group % 2],
                        reward=float(member % 2) if live else 0.0,
                        live=live,
                    )
                )
        return StepRequest(step=step, rows=tuple(rows), prox_version=prox_version, seed=step)


@pytest.fixture
def run(tmp_path: Path, tiny_model_dir: Path) -> Run:
    return Run(tmp_path / "run", tiny_model_dir)


@pytest.fixture
def weights_of() -> Callable[[TorchTrainer], dict[str, Any]]:
    def weights(trainer: TorchTrainer) -> dict[str, Any]:
        return {n: p.detach().clone() for n, p in trainer.policy.model.named_parameters()}

    return weights
