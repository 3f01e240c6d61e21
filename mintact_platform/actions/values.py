"""Single argument values as models write them: points, key names, typed text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_KEYS = re.compile(r"^\s*keys\s*=\s*")
_DRIVE = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\|^\\\\")
_FAR = 10**9
_NO_POINT = "must be two numbers [x, y]"


def read_point(value: Any) -> list[int]:
    """A point from `[x, y]`, `"(x, y)"`, `{"x": x, "y": y}`, nested lists, or a box (its centre).

    Raises:
        ValueError: when there are not two or four numbers, or they are beyond any screen.
    """
    numbers = list(_numbers(value))
    if len(numbers) == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    if len(numbers) != 2:
        raise ValueError(_NO_POINT)
    if not all(abs(number) < _FAR for number in numbers):
        raise ValueError("must be two numbers within the screen")
    return [round(number) for number in numbers]


def read_keys(value: Any) -> list[str]:
    """Key names from a list, a string (`"ctrl+c"`), or one with its name (`"keys=['ctrl'"`).

    Raises:
        ValueError: when no key is named.
    """
    parts = value if isinstance(value, list) else [value]
    keys = [key for part in parts for key in _split_keys(part)]
    if not keys:
        raise ValueError("must name at least one key")
    return keys


def read_key(value: Any) -> Any:
    """One key or combination (`"ctrl+a"`), also from a list of keys."""
    return "+".join(read_keys(value)) if isinstance(value, str | list) else value


def read_text(value: Any) -> Any:
    r"""Text to type, in which an escaped line break (`\n`, two characters) is a line break.

    Left alone where a backslash has another meaning: Windows paths, quoted code, other escapes.
    """
    if not isinstance(value, str) or _DRIVE.search(value) or '"' in value or "'" in value:
        return value
    if value.count("\\") != value.count("\\n"):
        return value
    return value.replace("\\n", "\n")


def lower(value: Any) -> Any:
    """A word in lower case; anything else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def capitalised(value: Any) -> Any:
    """A word with a capital first letter; anything else as it is."""
    return value.strip().capitalize() if isinstance(value, str) else value


def _numbers(value: Any) -> Iterable[float]:
    if isinstance(value, bool):
        raise ValueError(_NO_POINT)
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, str):
        yield from map(float, _NUMBER.findall(value))
    elif isinstance(value, Mapping):
        if not {"x", "y"} <= value.keys():
            raise ValueError(_NO_POINT)
        yield from _numbers([value["x"], value["y"]])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    else:
        raise ValueError(_NO_POINT)


def _split_keys(part: Any) -> list[str]:
    if not isinstance(part, str):
        raise ValueError("must be a list of key names")
    bare = _KEYS.sub("", part)
    names = [name.strip().strip("[]'\"").strip() or name.strip() for name in bare.split(",")]
    keys: list[str] = []
    for name in filter(None, names if len(bare.strip()) > 1 else [bare.strip()]):
        pieces = [piece.strip() for piece in name.split("+")]
        keys.extend(pieces if all(pieces) else [name])
    return keys
