"""Gymnasium spaces of calls and screens, so that gymnasium's own checker accepts an environment."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

_TERMINATE: Mapping[str, Any] = {"name": "terminate", "arguments": {"status": "success"}}


class CallSpace(gymnasium.Space[dict[str, Any]]):
    """Calls `{"name": str, "arguments": dict}`, as an action space hands them to `step`.

    Args:
        examples: valid calls; `sample` draws one of them, so that a random agent makes sense.
        seed: of the sampling.
    """

    def __init__(
        self,
        examples: Sequence[Mapping[str, Any]] = (_TERMINATE,),
        *,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(None, None, seed)
        self.examples = tuple(dict(example) for example in examples)

    @property
    def is_np_flattenable(self) -> bool:
        """A call has no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """One of the examples; masks are not supported."""
        chosen = self.examples[int(self.np_random.integers(len(self.examples)))]
        return copy.deepcopy(chosen)

    def contains(self, x: Any) -> bool:
        """Whether this is a call; whether it makes sense is the environment's to say."""
        return (
            isinstance(x, Mapping)
            and isinstance(x.get("name"), str)
            and isinstance(x.get("arguments"), Mapping)
        )

    def __repr__(self) -> str:
        return f"CallSpace({[example['name'] for example in self.examples]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallSpace) and self.examples == other.examples

    __hash__ = None  # type: ignore[assignment]  # examples are mutable dicts


class ScreenSpace(gymnasium.Space[dict[str, Any]]):
    """Observations `{"screenshot": uint8 [height, width, 3], "text": str}`, either may be absent.

    Args:
        width: pixels; None for screens that change their size, or for none at all.
        height: pixels.
        seed: of the sampling.
    """

    def __init__(
        self,
        width: int | None = None,
        height: int | None = None,
        *,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(None, None, seed)
        self.width, self.height = width, height

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """A screen of noise; masks are not supported."""
        if self.width is None or self.height is None:
            return {"text": ""}
        size = (self.height, self.width, 3)
        return {"screenshot": self.np_random.integers(0, 256, size, dtype=np.uint8), "text": ""}

    def contains(self, x: Any) -> bool:
        """Whether this is an observation, and of this size where one is given."""
        if not isinstance(x, Mapping) or not x.keys() <= {"screenshot", "text", "images"}:
            return False
        images = [*x.get("images", ())]
        if x.get("screenshot") is not None:
            images.append(x["screenshot"])
        return isinstance(x.get("text", ""), str) and all(self._fits(image) for image in images)

    def _fits(self, image: Any) -> bool:
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3:
            return False
        height, width, channels = image.shape
        return channels == 3 and self.width in (None, width) and self.height in (None, height)

    def __repr__(self) -> str:
        return f"ScreenSpace({self.width}, {self.height})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScreenSpace) and (self.width, self.height) == (
            other.width,
            other.height,
        )

    __hash__ = None  # type: ignore[assignment]  # a space holds its random state
