"""Image sizes a model family accepts, and what an image costs in tokens."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mintact_platform.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class VisionSize:
    """The vision tower's geometry.

    Attributes:
        patch: pixels of a patch's side.
        merge: patches merged along each side.
        area: cap of an image's area in pixels.
    """

    patch: int
    merge: int
    area: int

    @classmethod
    def read(cls, model_path: Path, area: int) -> VisionSize:
        """Read `preprocessor_config.json`, else `config.json`, of a model directory."""
        for name, section in (("preprocessor_config.json", None), ("config.json", "vision_config")):
            file = model_path / name
            if not file.is_file():
                continue
            values = json.loads(file.read_text())
            values = values.get(section, {}) if section else values
            merge = values.get("merge_size", values.get("spatial_merge_size"))
            if "patch_size" in values and merge:
                return cls(int(values["patch_size"]), int(merge), area)
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
