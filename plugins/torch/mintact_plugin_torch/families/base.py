"""What policy and decoder ask of a model family.

Shapes: B rows, L expanded tokens, T packed tokens, H hidden size, D head size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mintact_plugin_torch.features import ImageFeatures, Patches
from mintact_plugin_torch.layout import Layout

Pixels = npt.NDArray[np.uint8]
"""`[height, width, 3]`."""


class Family(ABC):
    """A model of one family.

    Args:
        model: the stock model.
        source: the model's directory; None for a model made in memory.

    Attributes:
        chat: registered name of the chat format.
        sees: whether it takes images.
        renamed: first parts of the weights' names in memory, and what files call them.
        model: the whole model; its `lm_head` makes logits.
        text: its decoder, with `embed_tokens`, `layers`, `norm` and `rotary_emb`.
        image_token_id: the placeholder; -1 without images.
        layout: how an image becomes tokens.
    """

    chat: ClassVar[str]
    sees: ClassVar[bool]
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})

    model: Any
    text: Any
    image_token_id: int
    layout: Layout

    @abstractmethod
    def __init__(self, model: Any, source: Path | None) -> None: ...

    def stored_name(self, name: str) -> str:
        """What files call a weight; a name from a file stays as it is."""
        for first, stored in self.renamed.items():
            if name.startswith(first):
                return stored + name.removeprefix(first)
        return name

    @abstractmethod
    def cut(self, pixels: Pixels) -> Patches:
        """Cut an image into what the vision tower reads.

        Raises:
            ConfigurationError: an image the model cannot take.
        """

    @abstractmethod
    def encode(self, images: Sequence[Patches]) -> ImageFeatures:
        """Image tokens of images cut by `cut`; fastest when all have one size."""

    @abstractmethod
    def inputs(
        self, positions: Tensor, is_image: Tensor, features: ImageFeatures | None
    ) -> dict[str, Any]:
        """What the text model takes besides embeddings, mask and cache.

        Args:
            positions: `[3, B, L]`.
            is_image: bool `[B, L]`.
            features: of the images in these tokens; None without images.
        """

    @abstractmethod
    def rotary(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[T, D]` of positions `[3, T]`, in the precision of `states`."""


class ThreePositions:
    """Rotary embedding of time, height and width (M-RoPE)."""

    text: Any

    def rotary(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[T, D]` of positions `[3, T]`."""
        cos, sin = self.text.rotary_emb(states, positions[:, None])
        return cos[0], sin[0]


class OnePosition:
    """Rotary embedding of one position a token; the three rows of a position are equal."""

    text: Any

    def inputs(
        self, positions: Tensor, is_image: Tensor, features: ImageFeatures | None
    ) -> dict[str, Any]:
        """Positions that count on through the padding, where a restart would mean a packed row."""
        steps = torch.arange(positions.shape[2], device=positions.device)
        return {"position_ids": positions[0, :, :1] + steps}

    def rotary(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[T, D]` of positions `[3, T]`."""
        cos, sin = self.text.rotary_emb(states, positions[:1])
        return cos[0], sin[0]
