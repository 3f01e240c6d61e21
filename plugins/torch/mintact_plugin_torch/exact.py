"""A model in float64: what the rounding of float32 is measured against.

A trainer in float32 is no such measure: it lies as far from the model as an engine in float32 does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mintact_platform.storage.images import ImageStore
from mintact_plugin_torch.forward import Forward, TokenBatch, unpack
from mintact_plugin_torch.policy import Policy


def in_float64(model: Any) -> Any:
    """Turn a stock model into float64, its norms too, which would go through float32.

    Args:
        model: a stock transformers model; changed in place and returned.
    """
    model.double()
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            size, epsilon = module.weight.shape, module.variance_epsilon
            module.forward = partial(
                F.rms_norm, normalized_shape=size, weight=module.weight, eps=epsilon
            )
    return model


class ExactForward(Forward):
    """The trainer's forward with every number in float64, and without gradients.

    Args:
        path: a model directory.
        images: where the screenshots of its rows are.
    """

    def __init__(self, path: str | Path, images: ImageStore) -> None:
        policy = Policy.load(path)
        in_float64(policy.model)
        super().__init__(policy, images, torch.device("cpu"))

    @torch.no_grad()
    def logprobs(self, batch: TokenBatch, *, entropy: bool = False) -> tuple[Tensor, Tensor]:
        """Log π of the targets after temperature, and its entropy there; float64 `[B, T]`."""
        heat = batch.temperature.double()[:, None]
        every = (self.policy.logits(self.states(batch)) / heat).log_softmax(-1)
        chosen = every.gather(1, batch.targets[:, None])[:, 0]
        entropies = -(every.exp() * every).sum(-1)
        return unpack(chosen, batch.mask), unpack(entropies, batch.mask)
