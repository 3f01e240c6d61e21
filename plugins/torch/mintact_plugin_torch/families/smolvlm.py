"""SmolVLM and Idefics3: images as square tiles with markers between them, plain positions.

The tokens of an image hold markers too (which tile follows, line breaks). They are ordinary text
tokens whose embeddings `encode` puts in place, so that an image stays one stretch of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.tiles import Cut, Tiles, preprocessor
from mintact_plugin_torch.families.base import Family, OnePosition, Pixels
from mintact_plugin_torch.features import ImageFeatures, Normalisation, Patches
from mintact_plugin_torch.layout import Placement


class SmolVLM(OnePosition, Family):
    """The model; needs its directory, whose tokenizer and preprocessor say how images expand."""

    chat = "smolvlm"
    sees = True

    def __init__(self, model: Any, source: Path | None) -> None:
        if source is None:
            raise ConfigurationError(
                "how images expand is said by the model directory", where="SmolVLM", next="load one"
            )
        self.model, self.text = model, model.model.text_model
        self.image_token_id = int(model.config.image_token_id)
        tiles = Tiles.read(source)
        self._side = tiles.side
        self._tiled = TiledLayout(tiles, source, int(model.config.vision_config.patch_size))
        self.layout = self._tiled
        stated = preprocessor(source)
        self._filter = Image.Resampling(stated.get("resample", Image.Resampling.LANCZOS))
        self._normalise = Normalisation(
            stated.get("image_mean", (0.5,) * 3), stated.get("image_std", (0.5,) * 3), tiles.side**2
        )

    def cut(self, pixels: Pixels) -> Patches:
        """Resize and cut a uint8 `[height, width, 3]` image; the whole image comes last."""
        height, width = pixels.shape[:2]
        cut = self._tiled.tiles.cut(width, height)
        image = self._resized(self._resized(Image.fromarray(pixels), cut.first), cut.second)
        whole = np.asarray(self._resized(image, (self._side, self._side)))
        tiles = [*_tiles(np.asarray(image), cut, self._side), whole]
        flat = np.stack([tile.transpose(2, 0, 1).reshape(-1) for tile in tiles])
        return Patches(
            torch.from_numpy(flat), (len(tiles), self._side, self._side), (width, height)
        )

    def encode(self, images: Sequence[Patches]) -> ImageFeatures:
        """Image tokens of images cut by `cut`, the embeddings of the markers between them too."""
        weight = self.text.embed_tokens.weight
        pixels = torch.cat([image.pixels for image in images]).to(weight.device)
        values = self._normalise(pixels).to(weight.dtype).view(-1, 3, self._side, self._side)
        seen = self.model.model.vision_model(pixel_values=values).last_hidden_state
        features = self.model.model.connector(seen).flatten(0, 1)
        ids = torch.from_numpy(
            np.concatenate([self._tiled.ids(*image.size) for image in images])
        ).to(weight.device)
        embeddings = self.text.embed_tokens(ids)
        shown = (ids == self.image_token_id)[:, None]
        return ImageFeatures(embeddings.masked_scatter(shown, features.to(embeddings.dtype)))

    def _resized(self, image: Image.Image, size: tuple[int, int]) -> Image.Image:
        return image if image.size == size else image.resize(size, self._filter)


class TiledLayout:
    """What an image's placeholder stands for, by the model's own tokenizer.

    Args:
        tiles: the cutting rule.
        source: model directory.
        patch: side of a patch in pixels.
    """

    def __init__(self, tiles: Tiles, source: Path, patch: int) -> None:
        self.tiles, self._patches = tiles, (tiles.side // patch) ** 2
        file = source / "tokenizer.json"
        if not file.is_file():
            raise ConfigurationError("no tokenizer.json in the model directory", where=str(source))
        tokenizer = Tokenizer.from_file(str(file))

        @lru_cache(maxsize=256)
        def encoded(rows: int, columns: int) -> Any:
            text = tiles.text(rows, columns)
            return np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int64)

        self._encoded = encoded

    def ids(self, width: int, height: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The expansion of an image of that many pixels."""
        cut = self.tiles.cut(width, height)
        ids: np.ndarray[Any, np.dtype[np.int64]] = self._encoded(cut.rows, cut.columns)
        return ids

    def place(self, width: int, height: int) -> Placement:
        """The tokens of an image of that many pixels."""
        ids = self.ids(width, height)
        return Placement(ids, np.tile(np.arange(len(ids)), (3, 1)), len(ids))

    def tokens(self, width: int, height: int) -> int:
        """Number of tokens of an image of that many pixels, markers included."""
        return len(self.ids(width, height))

    def patches(self, width: int, height: int) -> int:
        """Number of patches the vision tower makes of it."""
        return self.tiles.cut(width, height).total * self._patches


def _tiles(pixels: Pixels, cut: Cut, side: int) -> list[Pixels]:
    return [
        pixels[row * side : (row + 1) * side, column * side : (column + 1) * side]
        for row in range(cut.rows)
        for column in range(cut.columns)
    ]
