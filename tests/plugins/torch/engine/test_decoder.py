import pytest
import torch
from mintact_plugin_torch.engine.decoder import Decoder
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
