from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mintact_plugin_torch import weights
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.trainer import TorchTrainer
from mintact_plugin_torch.warmstart.tiny import make_tiny

from mintact_platform.errors import CheckpointCorrupt, StorageError, TrainerError
from mintact_platform.storage import checkpoints, trajectories

Weights = Callable[[TorchTrainer], dict[str, Any]]


def test_scores_are_the_stock_model_s_at_the_recorded_temperature(run: Any) -> None:
    trainer = run.started()
    path = run.trajectory("t", 3, None)
    (scored,), (tokens,) = trainer.score(str(path), temperature=0.7).values()
    segment = trajectories.load(path).segments[0]
    policy = trainer.policy
    ids, pixels, grids = [], [], []
    for place, token in enumerate(segment.ids.tolist()):
        span = next((s for s in segment.images if s.position == place), None)
        if span is None:
            ids.append(token)
            continue
        patches = policy.patches(run.images.get(span.digest, span.extension))
        ids += [policy.image_token_id] * (span.width * span.height // 1024)
        pixels.append(patches.pixels.float() / 127.5 - 1)
        grids.append(patches.grid)
    assert tokens == len(ids)
    inputs = torch.tensor([ids])
    with torch.no_grad():
        logits = policy.model(
            input_ids=inputs,
            pixel_values=torch.cat(pixels),
            image_grid_thw=torch.tensor(grids),
            mm_token_type_ids=(inputs == policy.image_token_id).long(),
        ).logits[0]
    logprobs = (logits.float() / 0.7).log_softmax(-1)
    response = [logprobs[len(ids) - 1 - k - 1, ids[len(ids) - 1 - k]].item() for k in range(3)]
    assert scored[-3:] == pytest.approx(response[::-1], abs=1e-4)


def test_an_export_loads_as_a_policy_with_the_same_weights(run: Any, weights_of: Weights) -> None:
    trainer = run.started()
    trainer.step(run.request(scorer=trainer))
    trainer.export(1, "weights/1")
    loaded = Policy.load(run.path / "weights/1")
    own = weights_of(trainer)
    assert all(torch.equal(own[n], p) for n, p in loaded.model.named_parameters())
    assert (run.path / "weights/1/tokenizer.json").exists()
    assert [p.name for p in (run.path / "weights").iterdir()] == ["1"]


def test_noise_is_reproducible_and_never_touches_the_weights(run: Any, weights_of: Weights) -> None:
    trainer = run.started()
    before = weights_of(trainer)
    path = str(run.trajectory("t", 3, None))
    trainer.export(1, "weights/1", noise=0.01)
    trainer.export(2, "weights/2", noise=0.01)
    files = [(run.path / f"weights/{v}/model.safetensors").read_bytes() for v in (1, 2)]
    assert files[0] == files[1]
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(trainer).items())
    noisy = trainer.score(path, temperature=1.0, noise=0.01)["logprobs"][0]
    exported = run.started()
    exported.deployed = weights.host_copy(Policy.load(run.path / "weights/2").model)
    assert exported.score(path, temperature=1.0)["logprobs"][0] == noisy
    assert np.abs(np.subtract(noisy, trainer.score(path, temperature=1.0)["logprobs"][0])).max() > 0


def test_only_the_version_exported_last_can_be_confirmed(run: Any) -> None:
    trainer = run.started()
    with pytest.raises(TrainerError, match=r"version 1 was not exported last \(none was\)"):
        trainer.confirm(1)
    trainer.export(1, "weights/1")
    trainer.export(2, "weights/2")
    with pytest.raises(TrainerError, match=r"\(2 was\)"):
        trainer.confirm(1)
    trainer.confirm(2)
    assert trainer.deployed_version == 2


def test_what_is_deployed_is_what_was_exported_not_what_came_after(run: Any) -> None:
    trainer = run.started()
    trainer.export(1, "weights/1")
    trainer.step(run.request(scorer=trainer))
    trainer.confirm(1)
    served = dict(Policy.load(run.path / "weights/1").model.named_parameters())
    assert all(torch.equal(tensor, served[name]) for name, tensor in trainer.deployed.items())


def test_a_checkpoint_holds_deployed_weights_of_their_own_only_where_they_differ(run: Any) -> None:
    trainer = run.started()
    trainer.save("checkpoints/0", step=0)
    trainer.step(run.request(scorer=trainer))
    trainer.save("checkpoints/1", step=1)
    assert not (run.path / "checkpoints/0/deployed.safetensors").exists()
    assert (run.path / "checkpoints/1/deployed.safetensors").exists()
    other = run.started()
    assert other.load("checkpoints/1") == 1
    assert all(torch.equal(t, trainer.deployed[n]) for n, t in other.deployed.items())
    found = checkpoints.complete(run.path / "checkpoints")[-1]
    assert (found.step, found.incarnation) == (1, 1)


@pytest.mark.parametrize(
    "name", ["weights.safetensors", "optimizer.safetensors", "trainer.json", "manifest.json"]
)
def test_a_damaged_checkpoint_is_refused_and_the_weights_stay(
    run: Any, weights_of: Weights, name: str
) -> None:
    trainer = run.started()
    trainer.step(run.request(scorer=trainer))
    trainer.save("checkpoints/1", step=1)
    file = run.path / "checkpoints/1" / name
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    before = weights_of(trainer)
    with pytest.raises(CheckpointCorrupt, match="checkpoints/1"):
        trainer.load("checkpoints/1")
    assert all(torch.equal(tensor, before[n]) for n, tensor in weights_of(trainer).items())


def test_a_checkpoint_of_another_model_is_refused(run: Any, tmp_path: Path) -> None:
    trainer = run.started()
    trainer.save("checkpoints/0", step=0)
    run.model = make_tiny(tmp_path / "other", corpus=["a few other words"] * 4)
    with pytest.raises(StorageError, match="weights of another model"):
        run.started().load("checkpoints/0")


def test_a_checkpoint_is_replaced_whole(run: Any) -> None:
    trainer = run.started()
    trainer.save("checkpoints/1", step=1)
    trainer.step(run.request(scorer=trainer))
    trainer.save("checkpoints/1", step=1)
    checkpoints.read(run.path / "checkpoints/1").verify()
    assert [p.name for p in (run.path / "checkpoints").iterdir()] == ["1"]


def test_a_segment_without_supervised_tokens_scores_as_empty(run: Any) -> None:
    path = run.trajectory("t", 3, None)
    whole = trajectories.load(path)
    silent = replace(whole.segments[0], mask=np.zeros_like(whole.segments[0].mask))
    run.store.save(replace(whole, segments=(silent, *whole.segments)))
    scored = run.started().score(str(path), temperature=1.0)
    assert scored["logprobs"][0] == []
    assert scored["tokens"][0] == scored["tokens"][1]


def test_little_room_for_images_changes_nothing(run: Any) -> None:
    request = run.request(scorer=run.started())
    roomy, tight = run.started(), run.started()
    tight.forward = Forward(tight.policy, run.images, tight.device, image_bytes=1)
    a, b = roomy.step(request), tight.step(request)
    assert (a.loss, a.grad_norm) == (b.loss, b.grad_norm)
