"""Copies of a model's weights: kept on the host, compared, swapped in, perturbed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]
"""Parameters by name; tied ones once."""


def host_copy(model: nn.Module) -> Weights:
    """A copy of all parameters in host memory."""
    return {
        name: parameter.detach().to("cpu", copy=True).contiguous()
        for name, parameter in model.named_parameters()
    }


def equal(model: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Whether the model holds exactly these weights."""
    return all(torch.equal(p.detach().cpu(), weights[n]) for n, p in model.named_parameters())


def put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


@contextmanager
def swapped(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The model with other weights in place of its own, which come back untouched."""
    own = {name: parameter.data for name, parameter in model.named_parameters()}
    try:
        for name, parameter in model.named_parameters():
            parameter.data = weights[name].to(parameter.device)
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = own[name]


def perturbed(model: nn.Module, noise: float, seed: int) -> Weights:
    """Weights times (1 + noise · N(0, 1)), the same for the same seed.

    Stands in for an engine with numerics of its own.
    """
    weights = host_copy(model)
    for name, tensor in weights.items():
        key = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key))
        draw = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.mul_(1 + noise * draw.to(tensor.dtype))
    return weights
