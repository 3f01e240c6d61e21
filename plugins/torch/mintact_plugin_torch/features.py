"""What goes into a vision tower and what comes out of it.

Shapes: n image tokens, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Grid = tuple[int, int, int]
"""Time, rows and columns of patches; or tiles, height and width of a tile in pixels."""


class Patches(NamedTuple):
    """An image cut into patches or tiles, in the order the vision tower wants them.

    Attributes:
        pixels: uint8, `[patches, channels × time × patch × patch]` or
            `[tiles, channels × height × width]`.
        grid: how they lie.
        size: width and height of the image in pixels.
    """

    pixels: Tensor
    grid: Grid
    size: tuple[int, int]


class ImageFeatures(NamedTuple):
    """Image tokens of one or more images, one after the other.

    Attributes:
        tokens: `[n, H]`, what stands at the image tokens.
        deepstack: one `[n, H]` a layer, added to the first text layers' output there.
    """

    tokens: Tensor
    deepstack: tuple[Tensor, ...] = ()

    @classmethod
    def join(cls, parts: Sequence[ImageFeatures]) -> ImageFeatures:
        """The features of several calls as one, in order."""
        layers = zip(*(part.deepstack for part in parts), strict=True)
        return cls(
            torch.cat([part.tokens for part in parts]), tuple(torch.cat(layer) for layer in layers)
        )

    def split(self, counts: Sequence[int]) -> list[ImageFeatures]:
        """One entry an image, `counts` being their numbers of tokens."""
        layers = [torch.split(layer, list(counts)) for layer in self.deepstack]
        return [
            ImageFeatures(tokens, tuple(layer[i] for layer in layers))
            for i, tokens in enumerate(torch.split(self.tokens, list(counts)))
        ]


class Normalisation:
    """Bytes of flattened patches to the numbers a vision tower reads.

    Args:
        mean: of each channel, for values in [0, 1].
        std: of each channel.
        repeat: neighbouring values of one channel.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], repeat: int) -> None:
        shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)])
        scale = torch.tensor([1 / (255 * s) for s in std])
        self._shift = shift.repeat_interleave(repeat)
        self._scale = scale.repeat_interleave(repeat)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Float32 values of uint8 `[…, channels × repeat]`."""
        values = pixels.float() * self._scale.to(pixels.device)
        return values.sub_(self._shift.to(pixels.device))
