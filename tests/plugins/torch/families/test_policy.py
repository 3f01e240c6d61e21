"""Policy and trainer's forward against the stock models: expansion, positions, values, files."""

import io
import json
import shutil

import numpy as np
import pytest
import torch
from mintact_plugin_torch.families import FAMILIES
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.layout import expand
from mintact_plugin_torch.policy import Policy
from PIL import Image
from safetensors import safe_open
from transformers import DynamicCache

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.trajectory import ImageSpan, Segment
from mintact_platform.storage.images import ImageStore

SIZES = ((56, 56), (84, 28), (28, 112), (112, 84))
CLOSE = {"atol": 2e-6, "rtol": 0}


@pytest.fixture
def policy(kind, model_dir):
    return Policy.load(model_dir(kind))


def segments(policy, picture, store):
    """Two rows of unequal length with images of unequal sizes, one of them in both."""
    random = np.random.default_rng(1)
    rows = []
    for sizes in (SIZES[:1], SIZES):
        ids, mask, spans, images = random.integers(60, 250, 9).tolist(), [False] * 9, [], []
        for seed, (width, height) in enumerate(sizes if policy.image_token_id >= 0 else ()):
            images.append(picture(seed, width, height))
            digest = store.put(images[-1], "png")
            spans.append(ImageSpan(digest, "png", len(ids), width, height))
            ids += [policy.image_token_id, *random.integers(60, 250, 6).tolist()]
            mask += [False] * 3 + [True] * 4
        ids += random.integers(60, 250, 5 * len(sizes)).tolist()
        mask += [True] * (len(ids) - len(mask))
        row = Segment(
            np.array(ids, np.int32),
            np.array(mask),
            np.zeros(len(ids), np.float32),
            np.zeros(len(ids), np.int32),
            tuple(spans),
        )
        rows.append((row, images))
    return rows


def reference(model, inputs, segment, expanded, temperature):
    """Stock log-probabilities of a segment's supervised tokens."""
    logits = model(**inputs).logits[0] / temperature
    places = np.flatnonzero(segment.mask[expanded.source])
    targets = torch.from_numpy(expanded.ids[places])
    return logits.log_softmax(-1)[places - 1].gather(1, targets[:, None])[:, 0]


def test_the_trainers_logprobs_and_gradients_are_the_stock_models(
    kind, policy, stock, picture, tmp_path, near
):
    model, store = stock(kind), ImageStore(tmp_path)
    rows = segments(policy, picture, store)
    forward = Forward(policy, store, torch.device("cpu"))
    batch = forward.collate([row for row, _ in rows], [0.7, 1.3])
    ours, entropies = forward.logprobs(batch)
    theirs = []
    for row, ((segment, images), expanded, heat) in enumerate(
        zip(rows, batch.expanded, (0.7, 1.3), strict=True)
    ):
        asked = model.inputs(segment.ids.tolist(), images), segment, expanded, heat
        theirs.append(reference(model.model, *asked))
        exact = reference(model.exact, *asked).detach()
        near(ours[row][batch.mask[row]].detach(), exact, temperature=heat)
    assert [forward.length(row) for row, _ in rows] == [len(e.ids) for e in batch.expanded]
    assert torch.isfinite(entropies).all()
    ours.sum().backward()
    torch.cat(theirs).sum().backward()
    stored = dict(model.model.named_parameters())
    for name, parameter in policy.model.named_parameters():
        wanted = stored[name].grad
        assert wanted is not None
        scale = float(wanted.abs().max())
        torch.testing.assert_close(parameter.grad, wanted, atol=1e-5 * (1 + scale), rtol=0)
    model.model.zero_grad()


def test_expansion_and_positions_are_transformers_own(sighted, model_dir, stock, picture, tmp_path):
    policy, model = Policy.load(model_dir(sighted)), stock(sighted)
    (row, images), *_ = reversed(segments(policy, picture, ImageStore(tmp_path)))
    expanded = expand(row.ids, [(i.position, i.width, i.height) for i in row.images], policy.layout)
    inputs = model.inputs(row.ids.tolist(), images)
    assert expanded.ids.tolist() == inputs["input_ids"][0].tolist()
    if sighted == "qwen2_5_vl":
        keys = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
        positions, _ = model.model.model.get_rope_index(**{key: inputs[key] for key in keys})
        assert expanded.positions.tolist() == positions[:, 0].tolist()
    else:
        assert expanded.positions.tolist() == [list(range(len(expanded.ids)))] * 3
    assert expanded.next_position == int(expanded.positions.max()) + 1


def test_the_core_counts_an_images_tokens_as_the_policy_does(sighted, model_dir):
    policy, vision = Policy.load(model_dir(sighted)), VisionSize.read(model_dir(sighted), 1 << 20)
    for width, height in (*SIZES, (640, 480), (1280, 720), (720, 1280)):
        size = vision.fit(width, height)
        assert vision.tokens(*size) == policy.layout.tokens(*size)
        assert policy.layout.patches(*size) > 0


@torch.no_grad()
def test_vision_input_is_the_stock_processors(sighted, model_dir, stock, picture):
    policy, model = Policy.load(model_dir(sighted)), stock(sighted)
    placeholder = policy.image_token_id
    # two alike take the batched path through the tower, the third the stock one
    for sizes in ((SIZES[0],), (SIZES[3], SIZES[3]), SIZES):
        images = [picture(seed, *size) for seed, size in enumerate(sizes)]
        cut = [policy.patches(image) for image in images]
        inputs = model.inputs([placeholder] * len(images), images)
        values = policy.family._normalise(torch.cat([c.pixels for c in cut]))
        stated = inputs["pixel_values"].reshape(values.shape)
        torch.testing.assert_close(values, stated, atol=1e-6, rtol=0)
        features = policy.encode(cut).tokens
        shown = inputs["input_ids"][0] == placeholder
        extra = {k: inputs[k] for k in ("image_grid_thw", "pixel_attention_mask") if k in inputs}
        wanted = torch.cat(
            list(model.model.get_image_features(inputs["pixel_values"], **extra).pooler_output)
        )
        torch.testing.assert_close(features[shown], wanted, **CLOSE)


@torch.no_grad()
def test_a_cached_continuation_equals_the_whole(kind, policy, picture, tmp_path):
    store = ImageStore(tmp_path)
    row, images = segments(policy, picture, store)[1]
    forward = Forward(policy, store, torch.device("cpu"))
    batch = forward.collate([row], [1.0])
    features = forward.features(batch.images)
    whole = policy.hidden(batch.ids, batch.positions, batch.is_image, features)
    cut = int(batch.is_image[0].nonzero()[0]) if images else 7
    cache = DynamicCache(config=policy.text.config)
    head, tail = (slice(None), slice(0, cut)), (slice(None), slice(cut, None))
    policy.hidden(
        batch.ids[head], batch.positions[:, :, :cut], batch.is_image[head], None, cache=cache
    )
    states = policy.hidden(
        batch.ids[tail], batch.positions[:, :, cut:], batch.is_image[tail], features, cache=cache
    )
    torch.testing.assert_close(states, whole[:, cut:], atol=1e-5, rtol=0)


def test_a_saved_policy_is_read_by_transformers_and_by_us(
    kind, policy, stock, model_dir, picture, tmp_path
):
    policy.save(tmp_path)
    again, model = Policy.load(tmp_path), stock(kind, tmp_path)
    for other in (again.model, model.model):
        after = other.state_dict()
        assert all(torch.equal(t, after[n]) for n, t in policy.model.state_dict().items())
    assert again.image_token_id == policy.image_token_id
    for name in ("tokenizer.json", "preprocessor_config.json"):
        assert (tmp_path / name).is_file() == (model_dir(kind) / name).is_file()


def test_files_hold_the_names_that_transformers_writes(kind, policy, stock, tmp_path):
    policy.save(tmp_path / "ours")
    stock(kind).model.save_pretrained(tmp_path / "stock")
    names = [
        set(safe_open(tmp_path / who / "model.safetensors", "pt").keys())
        for who in ("ours", "stock")
    ]
    assert names[0] == names[1]


def test_a_family_is_chosen_by_model_type(kind, policy):
    stated = json.loads((policy.source / "config.json").read_text())
    assert stated["model_type"] == kind
    assert stated["architectures"] == [type(policy.model).__name__] == [FAMILIES[kind].stock]
    assert FAMILIES[kind].name == type(policy.family).__name__


def test_an_unknown_model_type_names_the_families(model_dir, tmp_path):
    shutil.copytree(model_dir("qwen3"), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    for kind in ("mamba", None):
        config["model_type"] = kind
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(ConfigurationError) as caught:
            Policy.load(tmp_path)
        assert all(name in str(caught.value) for name in FAMILIES)
        assert "\n" not in str(caught.value)


def test_text_models_refuse_images_wherever_they_meet_one(model_dir, picture):
    policy = Policy.load(model_dir("qwen3"))
    vision = VisionSize.read(model_dir("qwen3"), 1 << 20)
    refused = [
        lambda: policy.patches(picture(0)),
        lambda: policy.encode([]),
        lambda: policy.layout.place(28, 28),
        lambda: policy.layout.tokens(28, 28),
        lambda: policy.layout.patches(28, 28),
        lambda: vision.fit(28, 28),
        lambda: vision.tokens(28, 28),
    ]
    for call in refused:
        with pytest.raises(ConfigurationError, match="text only"):
            call()


def test_a_side_that_does_not_divide_is_refused_by_patches_and_taken_by_tiles(model_dir):
    buffer = io.BytesIO()
    Image.new("RGB", (57, 31)).save(buffer, "PNG")
    with pytest.raises(ConfigurationError, match="multiple of 28"):
        Policy.load(model_dir("qwen2_5_vl")).patches(buffer.getvalue())
    assert Policy.load(model_dir("smolvlm")).patches(buffer.getvalue()).size == (57, 31)
