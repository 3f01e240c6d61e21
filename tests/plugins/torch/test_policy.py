import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from mintact_plugin_torch.layout import expand
from mintact_plugin_torch.policy import ImageFeatures, Policy
from PIL import Image
from transformers import AutoTokenizer, DynamicCache, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from mintact_platform.errors import ConfigurationError


@pytest.fixture(scope="module")
def policy(tiny_model_dir: Path) -> Policy:
    return Policy.load(tiny_model_dir)


@pytest.fixture(scope="module")
def stock(tiny_model_dir: Path) -> Qwen3VLForConditionalGeneration:
    return Qwen3VLForConditionalGeneration.from_pretrained(
        tiny_model_dir, attn_implementation="sdpa"
    ).eval()


def picture(width: int, height: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def batch(policy: Policy, sizes: list[list[tuple[int, int]]]):
    """Right-padded rows of random text around images of the given sizes, and their patches."""
    random = np.random.default_rng(3)
    rows, images = [], []
    for i, row in enumerate(sizes):
        ids, spans = random.integers(7, 250, 5 + i).tolist(), []
        for width, height in row:
            spans.append((len(ids), width, height))
            ids += [policy.image_token_id, *random.integers(7, 250, 4).tolist()]
            images.append(policy.cut(picture(width, height, len(images))))
        rows.append(expand(ids, spans, policy.layout))
    length = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    positions = torch.zeros(3, len(rows), length, dtype=torch.long)
    is_image = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, row in enumerate(rows):
        n = len(row.ids)
        ids[i, :n] = torch.from_numpy(row.ids)
        positions[:, i, :n] = torch.from_numpy(row.positions)
        is_image[i, :n] = torch.from_numpy(row.is_image)
    return ids, positions, is_image, images, [len(row.ids) for row in rows]


def stock_logits(stock, ids, is_image, images, lengths):
    mask = (torch.arange(ids.shape[1])[None] < torch.tensor(lengths)[:, None]).long()
    return stock(
        input_ids=ids,
        pixel_values=torch.cat([i.pixels for i in images]).float() / 127.5 - 1,
        image_grid_thw=torch.tensor([i.grid for i in images]),
        attention_mask=mask,
        mm_token_type_ids=is_image.int(),
    ).logits


@pytest.mark.parametrize(
    "sizes",
    [
        [[(128, 128)], [(128, 128), (128, 128)]],
        [[(96, 64), (64, 96)], [(128, 32)], [(32, 32)]],
    ],
    ids=["one size", "mixed sizes"],
)
@torch.no_grad()
def test_logits_equal_the_stock_forward(policy, stock, sizes):
    ids, positions, is_image, images, lengths = batch(policy, sizes)
    logits = policy.logits(policy.hidden(ids, positions, is_image, policy.encode(images)))
    reference = stock_logits(stock, ids, is_image, images, lengths)
    for row, n in enumerate(lengths):
        assert (logits[row, :n] - reference[row, :n]).abs().max() < 1e-5


def test_gradients_equal_the_stock_forward(policy, stock):
    ids, positions, is_image, images, lengths = batch(policy, [[(64, 64)], [(64, 64)]])
    weights = []
    for model, logits in (
        (
            policy.model,
            policy.logits(policy.hidden(ids, positions, is_image, policy.encode(images))),
        ),
        (stock, stock_logits(stock, ids, is_image, images, lengths)),
    ):
        logits[0, : lengths[0]].log_softmax(-1)[:, 3].sum().backward()
        weights.append(model.model.visual.blocks[0].attn.qkv.weight)
    first, second = (weight.grad for weight in weights)
    assert first.abs().max() > 0
    assert torch.allclose(first, second, atol=1e-5, rtol=1e-4)
    policy.model.zero_grad()


@pytest.mark.parametrize("time", [1, 2])
def test_patches_equal_the_image_processor(policy, time, monkeypatch):
    monkeypatch.setattr(policy.family, "time", time)
    pixels = picture(96, 64, 0)
    processor = Qwen2VLImageProcessorPil(
        patch_size=16,
        temporal_patch_size=time,
        merge_size=2,
        min_pixels=1024,
        max_pixels=1 << 20,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    reference = processor(images=[Image.fromarray(pixels)], return_tensors="pt")
    patches = policy.patches(png(pixels))
    assert patches.grid == tuple(reference["image_grid_thw"][0].tolist())
    values = patches.pixels.float() / 127.5 - 1
    assert torch.allclose(values, torch.as_tensor(reference["pixel_values"]), atol=1e-5)


@torch.no_grad()
def test_a_cached_continuation_equals_the_whole(policy):
    ids, positions, is_image, images, _ = batch(policy, [[(64, 64), (64, 96)]])
    whole = policy.hidden(ids, positions, is_image, policy.encode(images))
    first, second = policy.encode(images).split([4, 6])
    cut = int(is_image[0].nonzero()[4]) - 1
    cache = DynamicCache(config=policy.model.config.text_config)
    head = (slice(None), slice(0, cut))
    policy.hidden(ids[head], positions[:, :, :cut], is_image[head], first, cache=cache)
    tail = (slice(None), slice(cut, None))
    states = policy.hidden(ids[tail], positions[:, :, cut:], is_image[tail], second, cache=cache)
    assert (states - whole[:, cut:]).abs().max() < 1e-5


@torch.no_grad()
def test_split_features_join_to_the_whole(policy):
    images = [policy.cut(picture(64, 64, 0)), policy.cut(picture(64, 96, 1))]
    features = policy.encode(images)
    joined = ImageFeatures.join(features.split([4, 6]))
    assert torch.equal(joined.tokens, features.tokens)
    assert all(map(torch.equal, joined.deepstack, features.deepstack))


def test_chunked_logprobs_and_their_gradient_equal_the_plain_ones(policy):
    hidden = torch.randn(50, 96, generator=torch.Generator().manual_seed(0), requires_grad=True)
    targets = torch.arange(50)
    plain = policy.logits(hidden).div(0.7).log_softmax(-1)[torch.arange(50), targets]
    (expected,) = torch.autograd.grad(plain.sum(), hidden)
    chunked = policy.logprobs(hidden, targets, 0.7, chunk=16)
    (gradient,) = torch.autograd.grad(chunked.sum(), hidden)
    assert torch.allclose(chunked, plain, atol=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-5)
    assert policy.logprobs(hidden[:0], targets[:0], 0.7).shape == (0,)


def test_temperature_may_differ_from_token_to_token(policy):
    hidden = torch.randn(4, 96, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(4)
    heat = torch.tensor([0.5, 1.0, 1.5, 2.0])
    mixed = policy.logprobs(hidden, targets, heat, chunk=3)
    single = [
        policy.logprobs(hidden[i : i + 1], targets[i : i + 1], float(heat[i])) for i in range(4)
    ]
    assert torch.allclose(mixed, torch.cat(single), atol=1e-6)


def test_entropy_is_that_of_the_softmax(policy):
    hidden = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    reference = torch.distributions.Categorical(logits=policy.logits(hidden) / 1.3).entropy()
    assert torch.allclose(policy.entropies(hidden, 1.3, chunk=2), reference, atol=1e-5)


def test_a_saved_policy_loads_bit_identical_with_its_tokenizer(policy, tmp_path):
    policy.save(tmp_path / "saved")
    again = Policy.load(tmp_path / "saved")
    before, after = policy.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer.convert_tokens_to_ids("<|image_pad|>") == policy.image_token_id
    assert (tmp_path / "saved" / "preprocessor_config.json").is_file()


def test_a_directory_without_a_model_is_refused_with_the_next_step(tmp_path, tiny_model_dir):
    with pytest.raises(ConfigurationError, match=r"mintact torch new-model"):
        Policy.load(tmp_path)
    shutil.copy(tiny_model_dir / "config.json", tmp_path)
    config = (tmp_path / "config.json").read_text().replace('"qwen3_vl"', '"llama"')
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ConfigurationError, match="llama"):
        Policy.load(tmp_path)
