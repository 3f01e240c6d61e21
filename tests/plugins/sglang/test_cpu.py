"""The one kernel that SGLang lacks on a CPU, against its definition."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

CPU = Path(__file__).parents[3] / "plugins" / "sglang" / "cpu" / "mintact_sglang_cpu"


@pytest.fixture(scope="module")
def rotary():
    # the distribution is not installed here: in this interpreter nothing is to be replaced
    found = importlib.util.spec_from_file_location("rotary", CPU / "rotary.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.rotary_embedding


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("rotated", [8, 4])
def test_pairs_are_turned_by_their_angles(rotary, neox, rotated):
    torch.manual_seed(0)
    tokens, heads, key_heads, size = 5, 3, 1, 8
    angles = torch.rand(10, rotated // 2) * 6
    cache = torch.cat([angles.cos(), angles.sin()], dim=-1)
    positions = torch.tensor([0, 7, 3, 3, 9])
    query, key = torch.randn(tokens, heads * size), torch.randn(tokens, key_heads * size)
    turned = query.clone(), key.clone()
    rotary(positions, *turned, size, cache, neox)
    for before, after in zip((query, key), turned, strict=True):
        before, after = before.view(tokens, -1, size), after.view(tokens, -1, size)
        first = slice(0, rotated // 2) if neox else slice(0, rotated, 2)
        second = slice(rotated // 2, rotated) if neox else slice(1, rotated, 2)
        numbers = torch.complex(before[..., first], before[..., second])
        turn = torch.polar(torch.ones_like(angles), angles)[positions].unsqueeze(1)
        wanted = numbers * turn
        torch.testing.assert_close(after[..., first], wanted.real)
        torch.testing.assert_close(after[..., second], wanted.imag)
        assert torch.equal(after[..., rotated:], before[..., rotated:])


def test_half_precision_is_kept_and_a_missing_key_is_fine(rotary):
    query = torch.randn(2, 8, dtype=torch.bfloat16)
    rotary(torch.tensor([0, 1]), query, None, 8, torch.ones(4, 8), True)
    assert query.dtype == torch.bfloat16


def test_nothing_is_put_in_place_of_an_installed_vllm(monkeypatch):
    monkeypatch.syspath_prepend(str(CPU.parent))
    from mintact_sglang_cpu import provide_kernels

    standing = type(sys)("vllm")
    monkeypatch.setitem(sys.modules, "vllm", standing)
    provide_kernels()
    assert sys.modules["vllm"] is standing
    assert "vllm._custom_ops" not in sys.modules
