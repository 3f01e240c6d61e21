import pytest
import torch
from mintact_plugin_torch.engine.decoder import Decoder, _rotate
from mintact_plugin_torch.policy import Policy

TOKENS = 24


def _forward(decoder, dtype):
    width = decoder.query_heads * decoder.head_size
    states = torch.randn(TOKENS, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.inference_mode():
        return decoder.forward(
            states, torch.arange(TOKENS), lambda layer, query, key, value: (query + key).flatten(1)
        )


def test_norms_in_fewer_kernels_are_the_stock_ones(tiny_model_dir, monkeypatch):
    decoder = Decoder(Policy.load(tiny_model_dir))
    ours = _forward(decoder, torch.float32)
    monkeypatch.setattr(decoder, "_epsilon", None)
    torch.testing.assert_close(ours, _forward(decoder, torch.float32), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_normed_in_float32(tiny_model_dir, dtype):
    exact = _forward(Decoder(Policy.load(tiny_model_dir)), torch.float32)
    half = _forward(Decoder(Policy.load(tiny_model_dir, dtype=dtype)), dtype)
    assert half.dtype == dtype
    torch.testing.assert_close(half.float(), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("kept", [[], [0], [3, 23], [5, 6, 7, 23]])
def test_only_kept_tokens_leave_the_last_layer_and_the_same_as_ever(tiny_model_dir, kept):
    decoder = Decoder(Policy.load(tiny_model_dir))
    width = decoder.query_heads * decoder.head_size
    states, *deepstack = torch.randn(
        1 + decoder.layers, TOKENS, width, generator=torch.Generator().manual_seed(0)
    )
    images = torch.arange(4, 12)
    asked = []

    def forward(kept):
        def attend(layer, query, key, value):
            asked.append((len(query), len(key)))
            tokens = range(TOKENS) if kept is None or layer < decoder.layers - 1 else kept
            return (query + key[list(tokens)]).flatten(1)

        return decoder.forward(
            states.clone(),
            torch.arange(TOKENS),
            attend,
            images,
            [level[:8] for level in deepstack],
            None if kept is None else torch.tensor(kept, dtype=torch.int64),
        )

    with torch.inference_mode():
        every = forward(None)
        asked.clear()
        some = forward(kept)
    assert asked == [(TOKENS, TOKENS)] * (decoder.layers - 1) + [(len(kept), TOKENS)]
    torch.testing.assert_close(some, every[kept], atol=2e-6, rtol=1e-6)


def test_many_tokens_are_turned_like_few():
    generator = torch.Generator().manual_seed(0)
    heads = torch.randn(600, 5, 8, generator=generator)
    cos, sin = torch.randn(2, 600, 1, 8, generator=generator)
    parts = [_rotate(heads[s], cos[s], sin[s]) for s in (slice(0, 100), slice(100, 300))]
    torch.testing.assert_close(_rotate(heads, cos, sin)[:300], torch.cat(parts))


def test_weights_written_to_the_policy_are_the_decoders(tiny_model_dir):
    policy = Policy.load(tiny_model_dir)
    decoder = Decoder(policy)
    before = _forward(decoder, torch.float32)
    with torch.no_grad():
        for parameter in policy.text.layers.parameters():
            parameter.mul_(1.5)
    after = _forward(decoder, torch.float32)
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, _forward(Decoder(policy), torch.float32))
