"""Images as flattened patches, merge groups kept together: the vision input of Qwen-VL models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mintact_platform.models.tiles import preprocessor
from mintact_plugin_torch.families.base import Family, Pixels, ThreePositions
from mintact_plugin_torch.features import ImageFeatures, Normalisation, Patches
from mintact_plugin_torch.layout import GridLayout

Rotate = Callable[..., tuple[Tensor, Tensor]]
"""`(query, key, cos, sin) -> query, key`, rotated."""


class PatchFamily(ThreePositions, Family):
    """A model whose vision tower reads flattened patches, with M-RoPE positions.

    Attributes:
        time: frames a patch spans; a still image repeats.
        mean, std: normalisation where the model directory states none.
    """

    sees = True
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    def __init__(self, model: Any, source: Path | None) -> None:
        self.model, self.text = model, model.model.language_model
        vision = model.config.vision_config
        self.image_token_id = int(model.config.image_token_id)
        self._grid = GridLayout(int(vision.patch_size), int(vision.spatial_merge_size))
        self.layout = self._grid
        self.time = int(vision.temporal_patch_size)
        stated = preprocessor(source) if source is not None else {}
        self._normalise = Normalisation(
            stated.get("image_mean", self.mean),
            stated.get("image_std", self.std),
            self.time * int(vision.patch_size) ** 2,
        )

    def cut(self, pixels: Pixels) -> Patches:
        """Cut a uint8 `[height, width, 3]` image into patches, merge groups kept together."""
        height, width = pixels.shape[:2]
        rows, columns = self._grid.grid(width, height)
        patch, merge = self._grid.patch, self._grid.merge
        cells = pixels.reshape(rows, merge, patch, columns, merge, patch, 3)
        cells = cells.transpose(0, 3, 1, 4, 6, 2, 5)[..., None, :, :]
        cells = np.broadcast_to(cells, (*cells.shape[:5], self.time, patch, patch))
        flat = np.ascontiguousarray(cells).reshape(rows * columns * merge * merge, -1)
        grid = (1, rows * merge, columns * merge)
        return Patches(torch.from_numpy(flat), grid, (width, height))

    def encode(self, images: Sequence[Patches]) -> ImageFeatures:
        """Image tokens of images cut by `cut`; fastest when all have one size."""
        weight = self.model.model.visual.patch_embed.proj.weight
        pixels = torch.cat([image.pixels for image in images]).to(weight.device)
        values = self._normalise(pixels)
        grids = torch.tensor([image.grid for image in images], device=weight.device)
        output = self.model.model.visual(values.to(weight.dtype), grid_thw=grids)
        return ImageFeatures(output.pooler_output, tuple(self._deepstack(output)))

    def inputs(
        self, positions: Tensor, is_image: Tensor, features: ImageFeatures | None
    ) -> dict[str, Any]:
        """Three rows of positions.

        With a fourth, transformers would read packed sequences out of the M-RoPE gaps and mask
        across images.
        """
        return {"position_ids": positions}

    def _deepstack(self, output: Any) -> Sequence[Tensor]:
        return ()


def embed_flat(projection: Any, patches: Tensor) -> Tensor:
    """A patch embedding's convolution as the matrix product it is.

    It never overlaps; on a CPU the product takes an eighth of the time.

    Args:
        projection: the convolution.
        patches: flattened `[patches, channels × time × patch × patch]`.
    """
    weight = projection.weight
    flat: Tensor = F.linear(
        patches.to(weight.dtype), weight.view(weight.shape[0], -1), projection.bias
    )
    return flat


def attend_batched(
    module: Any,
    states: Tensor,
    lengths: Tensor,
    rotation: tuple[Tensor, Tensor] | None,
    rotate: Rotate,
) -> Tensor | None:
    """Vision attention in one call when all stretches have one length, else None.

    Args:
        module: the stock attention.
        states: `[patches, width]` over all stretches.
        lengths: of the stretches within which to attend.
        rotation: cosines and sines.
        rotate: the stock rotation.
    """
    length, patches = int(lengths[0]), states.shape[0]
    if rotation is None or int(lengths.min()) != int(lengths.max()):
        return None
    qkv = module.qkv(states).view(patches, 3, module.num_heads, -1)
    query, key, value = qkv.unbind(1)
    query, key = rotate(query, key, *rotation)
    query, key, value = (
        part.view(patches // length, length, module.num_heads, -1).transpose(1, 2)
        for part in (query, key, value)
    )
    output = F.scaled_dot_product_attention(query, key, value, scale=module.scaling)
    projected: Tensor = module.proj(output.transpose(1, 2).reshape(patches, -1))
    return projected
