"""A training step on every family: scored, moved, exported, and read by the stock model."""

import numpy as np
import pytest
import torch
from mintact_plugin_torch.trainer import TorchTrainer

from mintact_platform.config import ObjectiveSection, TrainerSection
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory
from mintact_platform.storage.images import ImageStore
from mintact_platform.storage.trajectories import TrajectoryStore
from mintact_platform.training.trainer import RowRef, StepRequest, TrainerSpec


@pytest.fixture
def trainer(kind, model_dir, tmp_path):
    trainer = TorchTrainer()
    trainer.start(
        TrainerSpec(
            model_path=str(model_dir(kind)),
            run_directory=str(tmp_path),
            trainer=TrainerSection(lr=1e-3, micro_batch_tokens=512).model_dump(mode="json"),
            objective=ObjectiveSection(length_cap=64).model_dump(mode="json"),
            image_area=1 << 20,
            incarnation=1,
            group_size=4,
            seed=7,
        )
    )
    return trainer


def recorded(trainer, tmp_path, picture, seed):
    """A stored trajectory with an image, where the model takes one, and its parts."""
    random = np.random.default_rng(seed)
    ids, spans, images = random.integers(60, 250, 6).tolist(), [], []
    if trainer.policy.image_token_id >= 0:
        images.append(picture(seed))
        digest = ImageStore(tmp_path / "images").put(images[0], "png")
        spans.append(ImageSpan(digest, "png", len(ids), 56, 56))
        ids.append(trainer.policy.image_token_id)
    ids += random.integers(60, 250, 5 + seed).tolist()
    mask = np.arange(len(ids)) >= len(ids) - 5
    segment = Segment(
        np.array(ids, np.int32),
        mask,
        np.where(mask, -6.0, 0.0).astype(np.float32),
        np.where(mask, 0, -1).astype(np.int32),
        tuple(spans),
    )
    task = Task("t", "goal", "mobile")
    whole = Trajectory(
        f"r{seed}", "g", 0, 0, task, Outcome.COMPLETED, segments=(segment,), temperature=0.7
    )
    return str(TrajectoryStore(tmp_path / "trajectories").save(whole)), ids, images


def test_a_step_moves_every_part_and_its_export_scores_alike(
    kind, trainer, stock, picture, tmp_path, near
):
    rows = [recorded(trainer, tmp_path, picture, seed) for seed in range(4)]
    before = {n: p.detach().clone() for n, p in trainer.policy.model.named_parameters()}
    refs = tuple(
        RowRef(f"r{i}", path, "g", "mobile", float(i % 2), True)
        for i, (path, _, _) in enumerate(rows)
    )
    report = trainer.step(StepRequest(step=1, rows=refs, prox_version=0, seed=1))
    assert np.isfinite(report.grad_norm)
    assert report.grad_norm > 0
    moved = {n for n, p in trainer.policy.model.named_parameters() if not torch.equal(p, before[n])}
    # a key's bias shifts all scores of a query alike: softmax leaves it without a gradient
    assert {n for n in before if not n.endswith("k_proj.bias")} <= moved
    trainer.export(1, "exported")
    trainer.confirm(1)
    model = stock(kind, tmp_path / "exported")
    for path, ids, images in rows:
        (ours,) = trainer.score(path, temperature=0.7)["logprobs"]
        near(ours, model.logprobs(ids, images, 5, 0.7), temperature=0.7)
