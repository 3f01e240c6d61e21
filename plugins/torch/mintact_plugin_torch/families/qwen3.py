"""Qwen3: text only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_plugin_torch.families.base import Family, OnePosition, Pixels
from mintact_plugin_torch.features import ImageFeatures, Patches
from mintact_plugin_torch.layout import Placement


class Qwen3(OnePosition, Family):
    """The model."""

    chat = "qwen3"
    sees = False
    image_token_id = -1

    def __init__(self, model: Any, source: Path | None) -> None:
        self.model, self.text = model, model.model
        self.layout = TextLayout(str(model.config.model_type))

    def cut(self, pixels: Pixels) -> Patches:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind(str(self.model.config.model_type))

    def encode(self, images: Sequence[Patches]) -> ImageFeatures:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind(str(self.model.config.model_type))


class TextLayout:
    """No image becomes tokens.

    Args:
        model_type: named in the error.
    """

    def __init__(self, model_type: str) -> None:
        self._model_type = model_type

    def place(self, width: int, height: int) -> Placement:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind(self._model_type)

    def tokens(self, width: int, height: int) -> int:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind(self._model_type)

    def patches(self, width: int, height: int) -> int:
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise _blind(self._model_type)


def _blind(model_type: str) -> ConfigurationError:
    return ConfigurationError(
        f"an image arrived, and {model_type} models read text only",
        next="choose a vision-language model, or domains without screenshots",
    )
