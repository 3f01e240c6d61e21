"""Images cut into square tiles, as the processors of Idefics3 and SmolVLM cut them.

An image is enlarged or reduced to a longest edge, stretched to whole tiles, and seen tile by tile
and once more as a whole. Between the tiles stand marker tokens that say which tile follows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from mintact_platform.errors import ConfigurationError

IMAGE, BORDER, WHOLE = "<image>", "<fake_token_around_image>", "<global-img>"
LARGEST = 4096
"""Longest edge that any image is reduced to first, in pixels."""


class Cut(NamedTuple):
    """How one image is cut.

    Attributes:
        first: width and height it is resized to, keeping its proportions.
        second: width and height it is stretched to from there, whole tiles.
        rows: rows of tiles; 0 when the image is one tile.
        columns: columns of tiles.
    """

    first: tuple[int, int]
    second: tuple[int, int]
    rows: int
    columns: int

    @property
    def total(self) -> int:
        """Tiles, the whole image among them."""
        return self.rows * self.columns + 1


@dataclass(frozen=True, slots=True)
class Tiles:
    """The cutting rule of a model.

    Attributes:
        side: of a tile in pixels.
        tokens: image tokens of a tile.
        longest: edge that images are resized to; None leaves them as they are.
        split: whether images are cut at all.
    """

    side: int
    tokens: int
    longest: int | None
    split: bool

    @classmethod
    def read(cls, model_path: Path) -> Self:
        """The rule a model directory states, in its preprocessor file and `config.json`.

        Raises:
            ConfigurationError: naming what is missing or does not fit together.
        """
        values = preprocessor(model_path)
        config = _read(model_path / "config.json")
        vision = config.get("vision_config", {})
        try:
            side = int(values["max_image_size"]["longest_edge"])
            across = int(vision["image_size"]) // int(vision["patch_size"])
            tokens = across**2 // int(config["scale_factor"]) ** 2
            longest = int(values["size"]["longest_edge"]) if values.get("do_resize", True) else None
        except (KeyError, TypeError) as error:
            raise ConfigurationError(
                f"does not say how images are cut into tiles: {error} is missing",
                where=str(model_path),
                next="take preprocessor_config.json and config.json over from the stock model",
            ) from None
        if side != int(vision["image_size"]):
            raise ConfigurationError(
                f"tiles of {side} pixels for a vision tower of {vision['image_size']}",
                where=str(model_path / "preprocessor_config.json"),
                next="make max_image_size equal to vision_config.image_size",
            )
        return cls(side, tokens, longest, bool(values.get("do_image_splitting", True)))

    def cut(self, width: int, height: int) -> Cut:
        """How an image of that many pixels is cut."""
        first = width, height
        if self.longest is not None:
            first = _below(*_longest(width, height, self.longest))
        if not self.split:
            return Cut(first, (self.side, self.side), 0, 0)
        wide, high = _whole(*first, self.side)
        if max(wide, high) <= self.side:
            return Cut(first, (wide, high), 0, 0)
        return Cut(first, (wide, high), high // self.side, wide // self.side)

    def text(self, rows: int, columns: int) -> str:
        """What an image's placeholder stands for, written out."""
        lines = [
            "".join(
                f"{BORDER}<row_{row}_col_{column}>{IMAGE * self.tokens}"
                for column in range(1, columns + 1)
            )
            for row in range(1, rows + 1)
        ]
        whole = f"{BORDER}{WHOLE}{IMAGE * self.tokens}{BORDER}"
        return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "") + whole


def preprocessor(model_path: Path) -> Mapping[str, Any]:
    """What a model directory says about its images; empty without any of the two files."""
    values = _read(model_path / "preprocessor_config.json")
    if not values:
        values = _read(model_path / "processor_config.json").get("image_processor", {})
    return values


def _read(file: Path) -> Mapping[str, Any]:
    values: Mapping[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return values


def _longest(width: int, height: int, edge: int) -> tuple[int, int]:
    """The longest edge becomes `edge`; the other one is even."""
    ratio = width / height
    if width >= height:
        other = int(edge / ratio)
        return edge, max(1, other + other % 2)
    other = int(edge * ratio)
    return max(1, other + other % 2), edge


def _below(width: int, height: int) -> tuple[int, int]:
    ratio = width / height
    if width >= height and width > LARGEST:
        return LARGEST, max(1, int(LARGEST / ratio))
    if height > width and height > LARGEST:
        return max(1, int(LARGEST * ratio)), LARGEST
    return width, height


def _whole(width: int, height: int, side: int) -> tuple[int, int]:
    """The longest edge up to whole tiles, then the other one in proportion."""
    ratio = width / height
    if width >= height:
        width = math.ceil(width / side) * side
        return width, math.ceil(int(width / ratio) / side) * side
    height = math.ceil(height / side) * side
    return math.ceil(int(height * ratio) / side) * side, height
