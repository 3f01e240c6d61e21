"""Weights from a model directory into a policy that runs: all of them, or none and an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mintact_platform.errors import MintactError
from mintact_plugin_torch.policy import Policy


class BadWeights(MintactError):
    """A directory does not hold the weights of this model."""


def read_weights(path: Path, policy: Policy) -> dict[str, Tensor]:
    """Read the safetensors files of a directory and check them against the policy.

    Raises:
        BadWeights: nothing there, a broken file, other names or other shapes.
    """
    try:
        files = sorted(path.glob("*.safetensors"))
    except (OSError, ValueError) as error:
        raise BadWeights(f"cannot be read: {error}", where=str(path)) from None
    if not files:
        raise BadWeights("no safetensors file", where=str(path))
    tensors: dict[str, Tensor] = {}
    stored_name = policy.family.stored_name
    for file in files:
        try:
            read = load_file(file)
        except (SafetensorError, OSError) as error:
            raise BadWeights(f"cannot be read: {error}", where=str(file)) from None
        tensors.update((stored_name(name), tensor) for name, tensor in read.items())
    wanted = policy.tensors()
    # a tied weight may be stored under either name or both
    known = {stored_name(name) for name in policy.model.state_dict()}
    missing = sorted(set(wanted) - set(tensors))
    strange = sorted(set(tensors) - known)
    shapes = sorted(n for n in wanted if n in tensors and tensors[n].shape != wanted[n].shape)
    for what, names in (("lacks", missing), ("has unknown", strange), ("has misshapen", shapes)):
        if names:
            raise BadWeights(f"{what} {names[0]!r} and {len(names) - 1} more", where=str(path))
    return tensors


@torch.inference_mode()
def write_weights(policy: Policy, tensors: Mapping[str, Tensor]) -> None:
    """Copy checked tensors into the policy's own."""
    for name, tensor in policy.model.state_dict().items():
        stored = policy.family.stored_name(name)
        if stored in tensors:
            tensor.copy_(tensors[stored])
