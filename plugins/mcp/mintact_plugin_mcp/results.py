"""From the result of a tool to words and pictures, and to a state check."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from mintact_platform.environments.protocol.images import read_image
from mintact_platform.environments.protocol.wire import WireError
from mintact_platform.records.verdict import StateCheck

_NOTHING = {"result": None}
"""How servers wrap what returns nothing."""


class Shown(NamedTuple):
    """What an agent is shown.

    Attributes:
        text: words.
        images: bytes of PNG and JPEG files.
    """

    text: str
    images: list[bytes]


def read_result(result: CallToolResult, max_text: int) -> Shown:
    """The content blocks in order; the structured content where there are none.

    Pictures that are neither PNG nor JPEG, sound, and binary resources are named, not shown.
    """
    images: list[bytes] = []
    parts = [_words(block, images) for block in result.content]
    if not parts and result.structured_content not in (None, _NOTHING):
        parts = [json.dumps(result.structured_content, ensure_ascii=False, default=str)]
    text = "\n".join(filter(None, parts))
    if result.is_error:
        text = f"error: {text or 'the tool failed and says no more'}"
    elif not text and not images:
        text = "(no output)"
    return Shown(cut(text, max_text), images)


def read_check(result: CallToolResult) -> StateCheck:
    """The state check that a tool answers: `{"success": bool, "score": number, …}`, or a bool.

    Raises:
        ValueError: it answers something else.
    """
    if result.is_error:
        raise ValueError(read_result(result, 300).text)
    value = result.structured_content
    if value is None:
        value = json.loads("".join(b.text for b in result.content if isinstance(b, TextContent)))
    if isinstance(value, Mapping) and set(value) == {"result"}:
        # how servers wrap what is no object
        value = value["result"]
    if isinstance(value, bool):
        return StateCheck(value, float(value))
    if not isinstance(value, Mapping) or not isinstance(value.get("success"), bool):
        raise ValueError("it must answer a bool, or an object with the bool 'success'")
    score = float(value.get("score", value["success"]))
    if not 0 <= score <= 1:
        raise ValueError(f"the score is {score}, not in [0, 1]")
    details = {k: v for k, v in value.items() if k not in ("success", "score")}
    return StateCheck(value["success"], score, details)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with a note of how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"


def _words(block: Any, images: list[bytes]) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _image(block, images)
        case AudioContent():
            return f"[sound, {block.mime_type}]"
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return resource.text
        case EmbeddedResource(resource=resource):
            return f"[resource {resource.uri}, {resource.mime_type or 'binary'}]"
    return f"[{type(block).__name__}]"


def _image(block: ImageContent, images: list[bytes]) -> str:
    try:
        image = read_image(base64.b64decode(block.data, validate=True))
    except (binascii.Error, WireError):
        return f"[picture that cannot be shown, {block.mime_type}]"
    images.append(image.data)
    return ""
