"""Shapes of machine-made values: what a value looks like that is different at every visit."""

from __future__ import annotations

import math
import re
from collections import Counter

SHAPES = ("epoch", "uuid", "hex", "random")
_EPOCH = re.compile(r"(?:1[0-9]{9}|2[0-4][0-9]{8})(?:[0-9]{3}|\.[0-9]{1,6}|[0-9]{6})?")
_UUID = re.compile(r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)
_HEX = re.compile(r"(?=.*[0-9])(?=.*[a-f])(?:[0-9a-f]{16,}|[0-9A-F]{16,})")
_TOKEN = re.compile(r"[A-Za-z0-9_~.+/-]{10,}={0,2}")
_FRACTION = re.compile(r"0?\.[0-9]{8,}")
_DIGITS_IN_TOKEN = 2
_ENTROPY = 2.8
"""Bits a character; words with a number in them have less, or have no digits among letters."""


def shape_of(value: str) -> str | None:
    """The shape of a value, None for one that a person may have chosen.

    Example:
        >>> shape_of("1714564800123"), shape_of("red shoes"), shape_of("f47ac10b58cc4372a567")
        ('epoch', None, 'hex')
    """
    if _EPOCH.fullmatch(value):
        return "epoch"
    if _UUID.fullmatch(value):
        return "uuid"
    if _HEX.fullmatch(value):
        return "hex"
    return "random" if _FRACTION.fullmatch(value) or _is_token(value) else None


def _is_token(value: str) -> bool:
    """Letters and digits in turns: neither a word, nor a slug, nor a number."""
    if not _TOKEN.fullmatch(value) or re.fullmatch(r"[a-z]+(?:[-_.][a-z0-9]+)*", value):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    turns = len(re.findall(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])", value))
    mixed = digits >= _DIGITS_IN_TOKEN and letters >= _DIGITS_IN_TOKEN and turns >= 2
    return mixed and _entropy(value) >= _ENTROPY


def _entropy(value: str) -> float:
    """Bits a character."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
