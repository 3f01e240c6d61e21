"""From a response's text to calls: tolerant about how a call is written, silent about its meaning.

Models leave out closing tags and braces, send arguments as a JSON string, put several calls in
one turn and talk after the last. All of this is read; what cannot be read becomes a `ParseError`
that the model is shown. Nothing here raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mintact_platform.actions.space import Call, ParseError

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_THOUGHT_END = "</think>"
_MAX_DEPTH = 16
_BARE = re.compile(r"(?:```(?:json)?\s*)?[{\[]")
_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrtu])')
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def read_calls(text: str) -> tuple[Call, ...] | ParseError:
    """The calls of a response in order, names and arguments as written.

    Only what follows the thinking is read, so a call that was merely thought about is not made.
    A call without a name (arguments alone) has the name "".
    """
    answer = text.partition(_THOUGHT_END)[2] if _THOUGHT_END in text else text
    values: list[Any] = []
    try:
        for value in _values(answer):
            values.extend(value if isinstance(value, list) else [value])
        calls = tuple(_call(value) for value in values)
    except ValueError as error:
        return ParseError(f"the tool call cannot be read: {error}")
    if not calls:
        return ParseError(
            f'no tool call found; write {OPEN}{{"name": ..., "arguments": {{...}}}}{CLOSE}'
        )
    return calls


def _values(answer: str) -> Iterator[Any]:
    """Every JSON value that opens a call, in order; several may share one pair of tags."""
    stripped = answer.lstrip()
    if OPEN not in answer:
        bare = _BARE.match(stripped)
        if bare:
            yield _decode(stripped, bare.end() - 1)[0]
        return
    at = answer.find(OPEN)
    while at >= 0:
        at += len(OPEN)
        value, at = _decode(answer, at)
        yield value
        while answer[at:].lstrip(" \t\r\n,")[:1] == "{":
            value, at = _decode(answer, answer.index("{", at))
            yield value
        at = answer.find(OPEN, at)


def _decode(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at or after `at` and where it ends; usual slips are mended.

    Raises:
        ValueError: saying what is wrong, for the model to read.
    """
    start = re.compile(r"\s*(?:```(?:json)?\s*)?").match(text, at).end()  # type: ignore[union-attr]
    if text[start : start + 1] not in ("{", "["):
        raise ValueError(f"expected a JSON object after {OPEN}")
    value, end = _raw(text, start)
    if end:
        return _clean(value), end
    stop = text.find(CLOSE, start)
    stop = len(text) if stop < 0 else stop
    body = _TRAILING_COMMA.sub(r"\1", _LONE_BACKSLASH.sub(r"\\\\", text[start:stop]))
    value, end = _raw(body + _missing(body), 0)
    if not end:
        raise ValueError("it is not valid JSON")
    return _clean(value), stop


def _raw(text: str, at: int) -> tuple[Any, int]:
    """`(value, end)`, or `(None, 0)` where no JSON value stands."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        return None, 0
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _missing(body: str) -> str:
    """The quote and brackets that would close what `body` leaves open."""
    closers: list[str] = []
    quoted = escaped = False
    for char in body:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = char == "\\", char != '"'
        elif char == '"':
            quoted = True
        elif char in "{[":
            closers.append("}" if char == "{" else "]")
        elif char in "}]" and closers:
            closers.pop()
    return '"' * quoted + "".join(reversed(closers))


def _call(value: Any) -> Call:
    if not isinstance(value, Mapping):
        raise ValueError("a call must be a JSON object with a name and arguments")
    function = value.get("function")
    if isinstance(function, Mapping):
        value = function
    name = value.get("name", "")
    if not isinstance(name, str):
        raise ValueError("the name must be a string")
    for key in ("arguments", "parameters"):
        if key in value:
            return Call(name.strip(), _arguments(value[key]))
    return Call(name.strip(), {key: v for key, v in value.items() if key != "name"})


def _arguments(value: Any) -> dict[str, Any]:
    """Arguments as an object, also when they were written as a JSON string."""
    if isinstance(value, str) and value.strip():
        value = _decode(value, 0)[0]
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise ValueError("the arguments must be a JSON object")
    return value


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) < 20 else 2**63
    if abs(value) >= 2**63:
        raise ValueError("a number is too large")
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# strict=False: a line break typed inside a string is a line break
_DECODER = json.JSONDecoder(
    strict=False, parse_int=_integer, parse_float=_number, parse_constant=_constant
)


def _clean(value: Any, depth: int = 0) -> Any:
    """The value with half surrogate pairs replaced: they cannot be sent to an environment."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value
