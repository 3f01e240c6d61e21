"""From a response's text to calls: tolerant about how a call is written, silent about its meaning.

Models leave out closing tags and braces, send arguments as a JSON string, put several calls in
one turn and talk after the last. All of this is read; what cannot be read becomes a `ParseError`
that the model is shown. Nothing here raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mintact_platform.actions.space import Call, ParseError

OPEN, CLOSE, THOUGHT_END = "<tool_call>", "</tool_call>", "</think>"
_MAX_DEPTH = 16
_FENCE = re.compile(r"\s*(?:```(?:json)?\s*)?")
_ESCAPE = re.compile(r'(\\["\\/bfnrtu])|\\')
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def read_calls(text: str) -> tuple[Call, ...] | ParseError:
    """The calls of a response in order, names and arguments as written.

    Only what follows the thinking is read, so a call that was merely thought about is not made.
    A call without a name (arguments alone) has the name "".
    """
    answer = text.partition(THOUGHT_END)[2] if THOUGHT_END in text else text
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


def accept(
    calls: tuple[Call, ...] | ParseError, check: Callable[[Call], Call | ParseError]
) -> tuple[Call, ...] | ParseError:
    """All calls checked, cut after the first that ends; one bad call refuses the whole turn."""
    if isinstance(calls, ParseError):
        return calls
    accepted: list[Call] = []
    for call in calls:
        checked = check(call)
        if isinstance(checked, ParseError):
            return checked
        accepted.append(checked)
        if checked.ends:
            break
    return tuple(accepted)


def sendable(text: str) -> str:
    """The text with half surrogate pairs replaced; they have no encoding."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _values(answer: str) -> Iterator[Any]:
    """Every JSON value that opens a call, in order; several may share one pair of tags."""
    if OPEN not in answer:
        if answer[_start(answer, 0) :][:1] in ("{", "["):
            yield _decode(answer, 0)[0]
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
    start = _start(text, at)
    if text[start : start + 1] not in ("{", "["):
        raise ValueError(f"expected a JSON object after {OPEN}")
    value, end = _raw(text, start)
    if end:
        return _clean(value), end
    stops = [found for tag in (OPEN, CLOSE) if (found := text.find(tag, start)) >= 0]
    stop = min(stops, default=len(text))
    body = text[start:stop].rstrip("` \n")
    for mend in (_braces, _backslashes, _commas):
        body = mend(body)
        value, end = _raw(body, 0)
        if end:
            return _clean(value), stop
    raise ValueError("it is not valid JSON")


def _start(text: str, at: int) -> int:
    """Where a value begins: after white space and the opening of a code fence."""
    found = _FENCE.match(text, at)
    return found.end() if found else at


def _raw(text: str, at: int) -> tuple[Any, int]:
    """`(value, end)`, or `(None, 0)` where no JSON value stands."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        return None, 0
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _braces(body: str) -> str:
    """With the closing braces it lacks; a value that was cut short is not guessed.

    Raises:
        ValueError: it ends inside a string, a list or a number.
    """
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
    if quoted or "]" in closers or (closers and body[-1:].isdigit()):
        raise ValueError("it is cut short")
    return body + "".join(closers)


def _backslashes(body: str) -> str:
    """With backslashes doubled that escape nothing."""
    return _ESCAPE.sub(lambda found: found[1] or "\\\\", body)


def _commas(body: str) -> str:
    """Without commas before a closing bracket."""
    return _TRAILING_COMMA.sub(r"\1", body)


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
    value = int(digits) if len(digits) <= 20 else 2**63
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
        return sendable(value)
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value
