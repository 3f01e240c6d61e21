"""Image sizes a model family accepts, and what an image costs in tokens."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from PIL import Image
from tokenizers import Tokenizer

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.tiles import Tiles, preprocessor


@dataclass(frozen=True, slots=True)
class VisionSize:
    """The vision tower's geometry.

    Attributes:
        patch: pixels of a patch's side.
        merge: patches merged along each side.
        area: cap of an image's area in pixels.
        regular: whether image tokens stand for the cells of a grid over the image.
    """

    regular: ClassVar[bool] = True

    patch: int
    merge: int
    area: int

    @classmethod
    def read(cls, model_path: Path, area: int) -> VisionSize:
        """Read the preprocessor file, else `config.json`, of a model directory.

        Raises:
            ConfigurationError: when neither says how an image becomes tokens.
        """
        file = model_path / "config.json"
        config = json.loads(file.read_text()) if file.is_file() else None
        stated = preprocessor(model_path)
        if "max_image_size" in stated:
            return TiledVision.of(model_path, area)
        for values in (stated, (config or {}).get("vision_config", {})):
            merge = values.get("merge_size", values.get("spatial_merge_size"))
            if "patch_size" in values and merge:
                return cls(int(values["patch_size"]), int(merge), area)
        if config is not None and not stated and "vision_config" not in config:
            return NoVision(0, 0, 0)
        raise ConfigurationError(
            "says neither patch_size nor merge_size", where=str(model_path), next="check model.path"
        )

    @property
    def factor(self) -> int:
        """Both sides of an image are multiples of it; one visual token covers its square."""
        return self.patch * self.merge

    def tokens(self, width: int, height: int) -> int:
        """Visual tokens of an image whose sides are multiples of `factor`."""
        return (width // self.factor) * (height // self.factor)

    def fit(self, width: int, height: int) -> tuple[int, int]:
        """The nearest size under the area cap with both sides a multiple of `factor`."""
        scale = min(1.0, math.sqrt(self.area / (width * height)))
        wide = max(self.factor, round(width * scale / self.factor) * self.factor)
        high = max(self.factor, round(height * scale / self.factor) * self.factor)
        while wide * high > self.area and max(wide, high) > self.factor:
            if wide >= high:
                wide -= self.factor
            else:
                high -= self.factor
        return wide, high


@dataclass(frozen=True, slots=True)
class TiledVision(VisionSize):
    """Images cut into tiles: their size decides how many, and `area` only what is stored.

    Attributes:
        tiles: the cutting rule.
        tokenizer: of the model.
    """

    regular: ClassVar[bool] = False

    tiles: Tiles
    tokenizer: Tokenizer = field(repr=False, compare=False)

    @classmethod
    def of(cls, model_path: Path, area: int) -> TiledVision:
        """Read a model directory; its tokenizer says what the markers between tiles cost."""
        file = model_path / "tokenizer.json"
        if not file.is_file():
            raise ConfigurationError(f"no tokenizer.json in {str(model_path)!r}", where="model")
        tiles = Tiles.read(model_path)
        return cls(1, 1, area, tiles, Tokenizer.from_file(str(file)))

    def tokens(self, width: int, height: int) -> int:
        """Tokens of an image, the markers between its tiles included."""
        cut = self.tiles.cut(width, height)
        text = replace(self.tiles, tokens=1).text(cut.rows, cut.columns)
        marked = len(self.tokenizer.encode(text, add_special_tokens=False).ids)
        return marked + cut.total * (self.tiles.tokens - 1)


@dataclass(frozen=True, slots=True)
class NoVision(VisionSize):
    """A model that reads text only."""

    regular: ClassVar[bool] = False

    def tokens(self, width: int, height: int) -> int:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind()

    def fit(self, width: int, height: int) -> tuple[int, int]:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind()


def _blind() -> ConfigurationError:
    return ConfigurationError(
        "an image arrived, and the model reads text only",
        where="model.path",
        next="choose a vision-language model, or domains without screenshots",
    )


@dataclass(frozen=True, slots=True)
class FittedImage:
    """An image as it is stored and as everyone sees it."""

    data: bytes
    extension: str
    width: int
    height: int


def fit_image(data: bytes, width: int, height: int, fmt: str, vision: VisionSize) -> FittedImage:
    """Resize once, so that every processor's own resize is a no-op; a fitting image is kept as is.

    Args:
        data: encoded image.
        width: its width in pixels.
        height: its height in pixels.
        fmt: `png` or `jpeg`.
        vision: the model's geometry.
    """
    extension = "jpg" if fmt == "jpeg" else "png"
    wide, high = vision.fit(width, height)
    if (wide, high) == (width, height):
        return FittedImage(data, extension, width, height)
    with Image.open(io.BytesIO(data)) as image:
        resized = image.convert("RGB").resize((wide, high), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    resized.save(buffer, "JPEG" if extension == "jpg" else "PNG", quality=90)
    return FittedImage(buffer.getvalue(), extension, wide, high)
