"""ULIDs: ids that sort by the time they were made."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80


class UlidSource:
    """Makes ids of 26 characters, each greater than the one before, from any thread.

    Args:
        clock: seconds since the epoch.
        random: `random(n)` gives n bytes; a seeded one makes a run's ids repeatable.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock, self._random = clock, random
        self._last = -1
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """The next id. Within a millisecond, or when the clock steps back, it counts up by one."""
        with self._lock:
            milliseconds = int(self._clock() * 1000)
            if milliseconds > self._last >> _RANDOM_BITS:
                self._last = milliseconds << _RANDOM_BITS | int.from_bytes(self._random(10), "big")
            else:
                self._last += 1
            return _encode(self._last)


def seconds_of(ulid: str) -> float:
    """When an id was made, in seconds since the epoch."""
    value = 0
    for character in ulid[:10]:
        value = value * 32 + _ALPHABET.index(character)
    return value / 1000


def _encode(value: int) -> str:
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -5, -5))
