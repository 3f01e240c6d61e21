"""From an OpenEnv observation, any JSON object, to words and pictures."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mintact_platform.environments.protocol.images import read_image
from mintact_platform.environments.protocol.wire import WireError

Picture: TypeAlias = bytes | npt.NDArray[np.uint8]

_ENCODED = ("iVBORw0KGgo", "/9j/")
"""How the base64 of a PNG and of a JPEG begin."""
_DEPTH = 6
_SMALLEST = 8
"""Pixels along an edge from which on nested lists are a picture, not a table of numbers."""


class Shown(NamedTuple):
    """What an agent is shown.

    Attributes:
        text: words.
        pictures: bytes of PNG or JPEG files, or pixels uint8 [height, width, 3].
    """

    text: str
    pictures: list[Picture]


def read_observation(
    observation: Mapping[str, Any], fields: Sequence[str] | None, max_text: int
) -> Shown:
    """Words and pictures of an observation.

    Pictures are found by what they are: base64 of a PNG or JPEG, a data URL of one, or pixels as
    nested lists. A single text is shown as it is, several values as lines `name: value`.

    Args:
        observation: as the server sent it.
        fields: show these only, in this order; None shows all.
        max_text: characters after which the text is cut.
    """
    kept = (
        observation if fields is None else {f: observation[f] for f in fields if f in observation}
    )
    pictures: list[Picture] = []
    plain = {name: _without_pictures(value, pictures, 0) for name, value in kept.items()}
    said = {name: value for name, value in plain.items() if value is not None and value != ""}
    if len(said) == 1 and "error" not in said:
        text = _words(*said.values())
    else:
        text = "\n".join(f"{name}: {_words(value)}" for name, value in said.items())
    return Shown(cut(text, max_text), pictures)


def tool_result(observation: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a called tool in place of the envelope that carries it."""
    result = observation.get("result")
    if not isinstance(result, Mapping):
        return {"result": result}
    name = "error" if result.get("is_error") or result.get("isError") else "result"
    content = result.get("content")
    if isinstance(content, list) and content:
        return {name: _item(content[0]) if len(content) == 1 else [*map(_item, content)]}
    return {name: result.get("structured_content", result.get("data", result))}


def refusal(data: Mapping[str, Any], max_text: int) -> str:
    """Why the server's model of an action does not hold, in words for the agent."""
    errors = data.get("errors")
    if not isinstance(errors, list) or not errors:
        return cut(str(data.get("message", "the action is not valid")), max_text)
    lines = []
    for error in errors:
        if isinstance(error, Mapping):
            place = ".".join(str(part) for part in error.get("loc") or ())
            lines.append(f"{place}: {error.get('msg', '?')}" if place else str(error.get("msg")))
    return cut("; ".join(lines), max_text)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with a note of how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"


def _item(content: Any) -> Any:
    """What a content block of a tool's result holds."""
    if not isinstance(content, Mapping):
        return content
    return content.get("text") or content.get("data") or content


def _without_pictures(value: Any, pictures: list[Picture], depth: int) -> Any:
    """The value with its pictures taken out; a picture of its own leaves nothing."""
    picture = _picture(value)
    if picture is not None:
        pictures.append(picture)
        return None
    if depth < _DEPTH and isinstance(value, Mapping):
        return {k: _without_pictures(v, pictures, depth + 1) for k, v in value.items()}
    if depth < _DEPTH and isinstance(value, list):
        return _list_without_pictures(value, pictures, depth)
    return value


def _list_without_pictures(values: list[Any], pictures: list[Picture], depth: int) -> Any:
    kept = []
    for value in values:
        found = len(pictures)
        plain = _without_pictures(value, pictures, depth + 1)
        if plain is not None or len(pictures) == found:
            kept.append(plain)
    if len(kept) == len(values):
        return kept
    return kept[0] if len(kept) == 1 else kept or None


def _picture(value: Any) -> Picture | None:
    if isinstance(value, str):
        return _encoded(value)
    return _pixels(value) if isinstance(value, list) else None


def _encoded(text: str) -> bytes | None:
    if text.startswith("data:image/"):
        text = text.partition(",")[2]
    if not text.startswith(_ENCODED):
        return None
    try:
        return read_image(base64.b64decode(text, validate=True)).data
    except (binascii.Error, ValueError, WireError):
        return None


def _pixels(rows: list[Any]) -> npt.NDArray[np.uint8] | None:
    try:
        looks_like = len(rows) >= _SMALLEST <= len(rows[0]) and len(rows[0][0]) == 3
        if not looks_like or not isinstance(rows[0][0][0], int):
            return None
        array = np.array(rows)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        return None
    # ragged rows, or numbers that are no colours
    if array.ndim != 3 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
        return None
    return array.astype(np.uint8)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
