"""Ranges of an environment's parameters, checked before a run begins.

Without pydantic, whose import workers do without.

Example:
    >>> class Shop(gymnasium.Env):  # doctest: +SKIP
    ...     def __init__(self, *, width: Pixels = 1280, patience: Seconds = 2.0) -> None: ...
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval

Pixels = Annotated[int, Interval(ge=1, le=2**14)]
"""A side of a screenshot."""

Seconds = Annotated[float, Interval(ge=0, le=1e9)]

Count = Annotated[int, Interval(ge=1, le=2**40)]

Share = Annotated[float, Interval(ge=0, le=1)]
