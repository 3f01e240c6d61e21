"""What a model wrote, read tolerantly: JSON with prose around it, and files in fenced blocks."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from mintact_platform.errors import MintactError

MAX_ANSWER = 4_000_000
_STARTS = 200
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([^\n`]*)\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"(?:^|[\s=:\"'`(])([\w][\w./-]*\.[A-Za-z]{2,4})(?=$|[\s\"'`):*,])")
_TRAILING = re.compile(r",(?=\s*[}\]])")
_DECODER = json.JSONDecoder(parse_constant=lambda name: _refuse_constant(name))


class AnswerError(MintactError):
    """A model answered, but not in the form that was asked for."""


def read_json(text: str) -> Any:
    """The JSON value in an answer: all of it, a fenced block, or the longest part that is one.

    Raises:
        AnswerError: there is none.

    Example:
        >>> read_json('Sure! {"a": [1, 2,]} Anything else?')
        {'a': [1, 2]}
    """
    plain = _THOUGHT.sub("", text[:MAX_ANSWER]).strip()
    candidates = [plain, *(match[3] for match in _FENCE.finditer(plain))]
    for candidate in candidates:
        value = _whole(candidate)
        if isinstance(value, dict | list):
            return value
    for candidate in (plain, _TRAILING.sub("", plain)):
        value = _longest(candidate)
        if value is not None:
            return value
    raise AnswerError(f"no JSON in the answer {plain[:120]!r}")


def read_files(text: str) -> dict[str, str]:
    r"""Fenced blocks that name a file, in the fence's own line or in the line before it.

    Example:
        >>> read_files("```html index.html\\n<p>hi</p>\n```")
        {'index.html': '<p>hi</p>\n'}
    """
    plain = _THOUGHT.sub("", text[:MAX_ANSWER])
    files: dict[str, str] = {}
    for match in _FENCE.finditer(plain):
        before = plain[: match.start()].rstrip("\n").rpartition("\n")[2]
        named = _PATH.search(match[2]) or _PATH.search(before)
        if named:
            files[named[1]] = match[3]
    return files


def _whole(text: str) -> Any:
    for attempt in (text, _TRAILING.sub("", text)):
        try:
            return json.loads(attempt, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            continue
    return None


def _longest(text: str) -> Any:
    best, length, at = None, 0, 0
    for _ in range(_STARTS):
        found = re.compile(r"[{\[]").search(text, at)
        if found is None:
            break
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.start() + 1
            continue
        if end - found.start() > length and value:
            best, length = value, end - found.start()
        at = end
    return best


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
