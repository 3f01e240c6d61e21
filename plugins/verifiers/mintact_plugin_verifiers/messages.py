"""From verifiers' messages to what an agent of ours reads; imports no verifiers.

A message is one of verifiers' models or a plain mapping from a dataset; both have `get`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Messages = Sequence[Any]

_SPOKEN_TO = frozenset(("system", "user", "tool", "text"))
_KNOWN = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
"""How a PNG and a JPEG file begin."""


def words(messages: Messages | str) -> str:
    """The messages as one text; speakers are named where the agent itself is among them."""
    if isinstance(messages, str):
        return messages
    listed: list[Any] = list(messages)
    told = [(str(message.get("role")), _text(message)) for message in listed]
    spoken = [(role, text) for role, text in told if text]
    if all(role in _SPOKEN_TO for role, _ in spoken):
        return "\n\n".join(text for _, text in spoken)
    return "\n\n".join(f"{role}: {text}" for role, text in spoken)


def pictures(messages: Messages | str) -> list[bytes]:
    """The pictures that the messages carry in themselves, as PNG or JPEG files, in order."""
    if isinstance(messages, str):
        return []
    return [data for message in messages for part in _parts(message) if (data := _picture(part))]


def news(before: Messages, now: Messages) -> Messages:
    """What an environment said after the agent's answer; all of it where the past was rewritten."""
    past, said = [_seen(message) for message in before], now[len(before) : len(before) + 1]
    grown = [_seen(message) for message in now[: len(before)]] == past
    if grown and said and said[0].get("role") == "assistant":
        return now[len(before) + 1 :]
    return now


def schemas(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """Tools as function schemas."""
    return [_schema(tool.get("function") or tool) for tool in tools]


def _schema(tool: Any) -> dict[str, Any]:
    function = {
        "name": str(tool.get("name")),
        "description": str(tool.get("description") or ""),
        "parameters": dict(tool.get("parameters") or {}),
    }
    return {"type": "function", "function": function}


def _seen(message: Any) -> tuple[str, str, int]:
    return str(message.get("role")), _text(message), len(_parts(message))


def _text(message: Any) -> str:
    content = message.get("content")
    lines = [content] if isinstance(content, str) else [_line(part) for part in _parts(message)]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call
        lines.append(f"{function.get('name')}({function.get('arguments')})")
    return "\n".join(line for line in lines if line)


def _parts(message: Any) -> Sequence[Any]:
    content = message.get("content")
    return () if content is None or isinstance(content, str) else content


def _line(part: Any) -> str:
    """A part in words; "" for a picture that is shown."""
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text") or "")
    if kind == "image_url":
        url = _url(part)
        return "" if url.startswith("data:") else f"[picture at {url}]"
    return f"[{kind}]"


def _url(part: Any) -> str:
    source = part.get("image_url")
    return source if isinstance(source, str) else str((source or {}).get("url", ""))


def _picture(part: Any) -> bytes | None:
    if part.get("type") != "image_url" or not _url(part).startswith("data:"):
        return None
    data = base64.b64decode(_url(part).partition(",")[2])
    return data if data.startswith(_KNOWN) else _as_png(data)


def _as_png(data: bytes) -> bytes:
    # imported here: most environments show no pictures
    from PIL import Image

    buffer = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """A call's arguments as verifiers has them: a text of JSON."""
    return json.dumps(dict(arguments), ensure_ascii=False)
