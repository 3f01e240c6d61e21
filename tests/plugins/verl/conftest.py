"""Random batches as verl holds them: padded responses with holes where a tool spoke."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

torch.set_num_threads(1)


def masked_sum(matrix: Tensor, mask: Tensor) -> Tensor:
    return (matrix * mask).sum()


def reduce(
    loss_mat,
    loss_mask,
    loss_agg_mode,
    dp_size=1,
    batch_num_tokens=None,
    global_batch_size=None,
    loss_scale_factor=None,
):
    """Two of verl's reductions by their definition; the marked test uses verl's own function."""
    total = masked_sum(loss_mat, loss_mask)
    if loss_agg_mode == "token-mean":
        return total / (batch_num_tokens or loss_mask.sum()) * dp_size
    assert loss_agg_mode == "seq-mean-token-sum-norm"
    return total / global_batch_size * dp_size / loss_scale_factor


@pytest.fixture
def aggregate():
    return reduce


@pytest.fixture
def batch():
    """Builds `old_log_prob, log_prob, advantages, response_mask` of a seed."""

    def build(seed, rows=6, tokens=9, dtype=torch.float64, infect=True):
        random = torch.Generator().manual_seed(seed)
        draw = lambda: torch.rand(rows, tokens, generator=random, dtype=dtype)  # noqa: E731
        old = -3 * draw()
        new = old + 1.5 * (draw() - 0.5)
        mask = draw() < 0.7
        mask[-1] = False
        advantages = 4 * (draw() - 0.5)
        if infect:
            # what stands outside of the mask must not matter, whatever it is
            for tensor in (old, new, advantages):
                tensor[~mask] = float("nan")
        return old, new.requires_grad_(), advantages, mask

    return build
