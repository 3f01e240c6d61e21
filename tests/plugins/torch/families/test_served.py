"""What the engine says it sampled is what the stock model computes over the whole conversation."""

import asyncio
import json

import numpy as np
import pytest
import torch
from mintact_plugin_torch.engine.app import create_app
from mintact_plugin_torch.engine.decoder import Decoder
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.images import BadImage
from mintact_plugin_torch.engine.runner import Limits
from mintact_plugin_torch.policy import Policy
from starlette.testclient import TestClient

from mintact_platform.errors import ConfigurationError

SIZES = ((56, 56), (84, 28), (28, 112))


class Conversation:
    """An append-only conversation with a new image and some text a turn."""

    def __init__(self, seed, placeholder, picture):
        self.rng = np.random.default_rng(seed)
        self.ids, self.images = self.text(24), []
        self.placeholder, self.picture = placeholder, picture

    def text(self, count):
        return self.rng.integers(60, 250, count).tolist()

    def observe(self, turn):
        if self.placeholder >= 0:
            size = SIZES[turn % len(SIZES)]
            self.images.append(self.picture(int(self.rng.integers(1 << 30)), *size))
            self.ids.append(self.placeholder)
        self.ids += self.text(7)


async def play(engine, ask, model, conversation, temperature, near):
    """Two turns; returns cached, prompt and compared tokens of each."""
    seen = []
    for turn in range(2):
        conversation.observe(turn)
        stops = [engine.policy.image_token_id] if conversation.placeholder >= 0 else []
        reply = await ask(
            engine,
            conversation.ids,
            conversation.images,
            temperature=temperature,
            stop_token_ids=stops,
            sampling_seed=turn,
        )
        output = reply["output_ids"]
        pairs = reply["meta_info"]["output_token_logprobs"]
        while output and output[-1] in stops:
            output, pairs = output[:-1], pairs[:-1]
        conversation.ids = conversation.ids + output
        expected = model.logprobs(conversation.ids, conversation.images, len(output), temperature)
        near([pair[0] for pair in pairs], expected, temperature=temperature)
        meta = reply["meta_info"]
        seen.append((meta["cached_tokens"], meta["prompt_tokens"], len(output)))
    return seen


@pytest.mark.parametrize(
    ("temperature", "limits"), [(1.0, {}), (0.7, {"forward_tokens": 16})], ids=["whole", "chunked"]
)
async def test_logprobs_are_the_stock_models_over_turns_images_and_reuse(
    kind, open_engine, ask, stock, picture, temperature, limits, near
):
    model = stock(kind)
    async with open_engine(kind, **limits) as engine:
        placeholder = engine.policy.image_token_id
        conversations = [Conversation(seed, placeholder, picture) for seed in range(3)]
        turns = await asyncio.gather(
            *(play(engine, ask, model, one, temperature, near) for one in conversations)
        )
    for (_, before, _), (cached, _, _) in turns:
        assert cached >= before, "the second turn reuses the first prompt"
    assert sum(compared for turn in turns for _, _, compared in turn) > 24


async def test_new_weights_from_a_directory_are_served(
    kind, open_engine, ask, model_dir, stock, picture, tmp_path, near
):
    changed = Policy.load(model_dir(kind))
    with torch.no_grad():
        for parameter in changed.model.parameters():
            parameter.mul_(1.01)
    changed.save(tmp_path)
    async with open_engine(kind) as engine:
        await engine.load(str(tmp_path), "2", abort=False)
        conversation = Conversation(0, engine.policy.image_token_id, picture)
        await play(engine, ask, stock(kind, tmp_path), conversation, 1.0, near)


async def test_an_image_for_a_text_model_is_refused_in_plain_words(open_engine, ask, picture):
    async with open_engine("qwen3") as engine:
        with pytest.raises(BadImage, match="qwen3 models read text only"):
            await ask(engine, [60, 61, 62], [picture(0)])
        assert (await ask(engine, [60, 61, 62]))["output_ids"]


def test_model_info_tells_the_truth(kind, model_dir):
    policy = Policy.load(model_dir(kind))
    engine = Engine(policy, model_path="m", version="1", limits=Limits(slots=1, context=64))
    with TestClient(create_app(engine)) as client:
        info = client.get("/model_info").json()
    assert info["model_type"] == kind
    assert (
        info["architectures"]
        == json.loads((model_dir(kind) / "config.json").read_text())["architectures"]
    )
    assert info["has_image_understanding"] is (kind != "qwen3")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "dynamic"),
    ],
)
def test_what_the_decoder_cannot_do_is_refused(model_dir, monkeypatch, changes, said):
    policy = Policy.load(model_dir("qwen3"))
    for name, value in changes.items():
        monkeypatch.setattr(policy.text.config, name, value)
    with pytest.raises(ConfigurationError, match=said):
        Decoder(policy)
