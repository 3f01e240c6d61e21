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

from mintact_platform.environments.wire import MAX_TEXT, EncodedImage, ImageFormat, Observation

_MAX_ARRAY = 4096


class InvalidObservation(ValueError):
    """The environment returned something that is no observation."""


def from_reset(returned: Any, image_format: ImageFormat) -> Observation:
    """Read `observation, info` as `reset` returns it.

    Raises:
        InvalidObservation: saying which part is wrong.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise InvalidObservation("reset must return (observation, info)")
    return _observation(returned[0], 0.0, False, False, returned[1], image_format)


def from_step(returned: Any, image_format: ImageFormat) -> Observation:
    """Read `observation, reward, terminated, truncated, info` as `step` returns it.

    Raises:
        InvalidObservation: saying which part is wrong.
    """
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise InvalidObservation(
            "step must return (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = returned
    return _observation(
        observation,
        _reward(reward),
        _flag(terminated, "terminated"),
        _flag(truncated, "truncated"),
        info,
        image_format,
    )


def encode_image(pixels: Any, image_format: ImageFormat) -> EncodedImage:
    """Encode a screenshot, uint8 `[height, width, 3]`: PNG without loss, or JPEG of quality 80.

    Raises:
        InvalidObservation: the array has another shape or type.
    """
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


def _observation(
    observation: Any,
    reward: float,
    terminated: bool,
    truncated: bool,
    info: Any,
    image_format: ImageFormat,
) -> Observation:
    if not isinstance(info, Mapping):
        raise InvalidObservation(f"info must be a dict, got {_say(info)}")
    text, pictures = _parts(observation)
    if len(text) > MAX_TEXT:
        raise InvalidObservation(f"text of {len(text)} characters is over the cap of {MAX_TEXT}")
    tools = info.get("tools")
    return Observation(
        text=text,
        images=tuple(encode_image(picture, image_format) for picture in pictures),
        tools=None if tools is None else tuple(plain(tool) for tool in tools),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        info={str(key): plain(value) for key, value in info.items() if key != "tools"},
    )


def _parts(observation: Any) -> tuple[str, Sequence[Any]]:
    """Text and pictures of an observation."""
    if isinstance(observation, str):
        return observation, ()
    if _is_picture(observation):
        return "", (observation,)
    if isinstance(observation, Mapping) and observation.keys() & {"screenshot", "text", "images"}:
        text = observation.get("text") or ""
        if not isinstance(text, str):
            raise InvalidObservation(f"text must be a string, got {_say(text)}")
        pictures = list(observation.get("images") or ())
        if observation.get("screenshot") is not None:
            pictures.insert(0, observation["screenshot"])
        return text, pictures
    if observation is None:
        raise InvalidObservation("the observation is None")
    return str(plain(observation)), ()


def _reward(value: Any) -> float:
    try:
        reward = float(value)
    except (TypeError, ValueError):
        raise InvalidObservation(f"reward must be a number, got {_say(value)}") from None
    if not math.isfinite(reward):
        raise InvalidObservation(f"reward must be finite, got {reward!r}")
    return reward


def _flag(value: Any, name: str) -> bool:
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
