"""From what an environment returns to what travels; everything else is an invalid observation.

Runs in the worker, on the environment's own thread, so that encoding an image blocks nobody.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mintact_platform.environments.protocol.images import read_image
from mintact_platform.environments.protocol.wire import (
    MAX_TEXT,
    EncodedImage,
    ImageFormat,
    Observation,
    WireError,
    pack_image,
)

_MAX_ARRAY = 4096
_PARTS = frozenset(("screenshot", "text", "images"))


class InvalidObservation(ValueError):
    """The environment returned something that is no observation."""


def from_reset(returned: Any, image_format: ImageFormat) -> Observation:
    """Read `observation, info` as `reset` returns it.

    Raises:
        InvalidObservation: saying which part is wrong.
    """
    return Observation.unpack(reset_values(returned, image_format))


def from_step(returned: Any, image_format: ImageFormat) -> Observation:
    """Read `observation, reward, terminated, truncated, info` as `step` returns it.

    Raises:
        InvalidObservation: saying which part is wrong.
    """
    return Observation.unpack(step_values(returned, image_format))


def reset_values(returned: Any, image_format: ImageFormat) -> dict[str, Any]:
    """What `from_reset` reads, as wire values; see `Observation.pack`."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise InvalidObservation("reset must return (observation, info)")
    return _values(returned[0], 0.0, False, False, returned[1], image_format)


def step_values(returned: Any, image_format: ImageFormat) -> dict[str, Any]:
    """What `from_step` reads, as wire values; see `Observation.pack`."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise InvalidObservation(
            "step must return (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = returned
    return _values(
        observation,
        _reward(reward),
        _flag(terminated, "terminated"),
        _flag(truncated, "truncated"),
        info,
        image_format,
    )


def has_pixels(returned: Any) -> bool:
    """Whether what `reset` or `step` returned holds a picture that still has to be encoded."""
    observation = returned[0] if isinstance(returned, tuple) and returned else None
    if isinstance(observation, Mapping):
        pictures = (observation.get("screenshot"), *(observation.get("images") or ()))
        return any(isinstance(picture, np.ndarray) for picture in pictures)
    return isinstance(observation, np.ndarray)


def encode_image(pixels: Any, image_format: ImageFormat) -> EncodedImage:
    """Encode a screenshot, uint8 `[height, width, 3]`: PNG without loss, or JPEG of quality 80.

    The bytes of a PNG or JPEG file are passed through as they are.

    Raises:
        InvalidObservation: the array has another shape or type.
    """
    if isinstance(pixels, bytes):
        return _encoded(pixels)
    if not _is_picture(pixels):
        raise InvalidObservation(f"a screenshot is uint8 [height, width, 3], got {_say(pixels)}")
    # imported here: a text environment never needs pillow
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if image_format == "png":
        image.save(buffer, "PNG", compress_level=1)
    else:
        image.save(buffer, "JPEG", quality=80)
    height, width = pixels.shape[:2]
    return EncodedImage(buffer.getvalue(), image_format, int(width), int(height))


def _encoded(data: bytes) -> EncodedImage:
    try:
        return read_image(data)
    except WireError as error:
        raise InvalidObservation(str(error)) from None


def plain(value: Any) -> Any:
    """The value as JSON values; numpy becomes Python, what JSON does not know becomes text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.size <= _MAX_ARRAY:
        return value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _say(value) if isinstance(value, np.ndarray) else repr(value)


def _values(
    observation: Any,
    reward: float,
    terminated: bool,
    truncated: bool,
    info: Any,
    image_format: ImageFormat,
) -> dict[str, Any]:
    # an abstract class is ten times slower to ask than the usual type
    if type(info) is not dict and not isinstance(info, Mapping):
        raise InvalidObservation(f"info must be a dict, got {_say(info)}")
    text, pictures = _parts(observation)
    if len(text) > MAX_TEXT:
        raise InvalidObservation(f"text of {len(text)} characters is over the cap of {MAX_TEXT}")
    tools = info.get("tools")
    return {
        "text": text,
        "images": [pack_image(encode_image(picture, image_format)) for picture in pictures],
        "tools": None if tools is None else [plain(tool) for tool in tools],
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
        "info": {str(k): plain(v) for k, v in info.items() if k != "tools"} if info else {},
    }


def _parts(observation: Any) -> tuple[str, Sequence[Any]]:
    """Text and pictures of an observation."""
    if isinstance(observation, str):
        return observation, ()
    is_map = type(observation) is dict or isinstance(observation, Mapping)
    if is_map and not _PARTS.isdisjoint(observation):
        text = observation.get("text") or ""
        if not isinstance(text, str):
            raise InvalidObservation(f"text must be a string, got {_say(text)}")
        screenshot, images = observation.get("screenshot"), observation.get("images") or ()
        # last, because that is the one on which an agent acts
        return text, images if screenshot is None else (*images, screenshot)
    if _is_picture(observation):
        return "", (observation,)
    if observation is None:
        raise InvalidObservation("the observation is None")
    return str(plain(observation)), ()


def _reward(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    try:
        reward = float(value)
    except (TypeError, ValueError):
        raise InvalidObservation(f"reward must be a number, got {_say(value)}") from None
    if not math.isfinite(reward):
        raise InvalidObservation(f"reward must be finite, got {reward!r}")
    return reward


def _flag(value: Any, name: str) -> bool:
    if value is True or value is False:
        return value
    if not isinstance(value, bool | np.bool_):
        raise InvalidObservation(f"{name} must be a bool, got {_say(value)}")
    return bool(value)


def _is_picture(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.uint8
        and value.ndim == 3
        and value.shape[2] == 3
        and value.size > 0
    )


def _say(value: Any) -> str:
    if isinstance(value, np.ndarray):
        array: npt.NDArray[Any] = value
        return f"{array.dtype} {list(array.shape)}"
    return type(value).__name__
