"""Environments that fail again and again are refused for a while. Pure: time is passed in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mintact_platform.environments.protocol.wire import ErrorBody

FAILURES = 3
"""Failures in a row after which an environment is quarantined."""
_PAUSES = (1.0, 60.0)
_PROBE = 900.0
"""Seconds a probe may take before another one is let through: the longest create deadline."""
_REMEMBERED = 1024


class Key(NamedTuple):
    """What fails together.

    Attributes:
        environment: its name.
        params: its parameters as JSON.
        python: interpreter of the worker, None for the server's own.
    """

    environment: str
    params: str
    python: str | None

    def file_name(self) -> str:
        """A name for a file about it."""
        name = re.sub(r"[^A-Za-z0-9.]+", "-", self.environment)[:60].strip("-.")
        return f"{name}-{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"


def key_of(environment: str, params: Mapping[str, Any], python: str | None) -> Key:
    """The key of a request."""
    return Key(environment, json.dumps(params, sort_keys=True, default=repr), python)


@dataclass
class Streak:
    """Failures in a row.

    Attributes:
        phase: of the last one, `create` or `reset`; only a success of that phase ends the streak.
        count: how many.
        error: the last one.
        pause: seconds the next requests are refused.
        until: end of the refusal.
        log: the kept log, "" before there is one.
    """

    phase: str
    count: int = 0
    error: ErrorBody | None = None
    pause: float = 0.0
    until: float = 0.0
    log: str = ""


class Quarantine:
    """Streaks of failures by key, and what is refused because of them."""

    def __init__(self) -> None:
        self._streaks: dict[Key, Streak] = {}

    def refusal(self, key: Key, now: float) -> ErrorBody | None:
        """Why a request has to wait; None lets it through, as the only probe of a quarantine."""
        streak = self._streaks.get(key)
        if streak is None or streak.count < FAILURES:
            return None
        if now >= streak.until:
            streak.until = now + _PROBE
            return None
        # while a probe runs, nobody knows for how long; its success should not find all asleep
        wait = min(streak.until - now, streak.pause)
        assert streak.error is not None
        kept = f"; its log is kept in {streak.log}" if streak.log else ""
        message = (
            f"environment {key.environment!r} failed {streak.count} times in a row, last at "
            f"{streak.phase}: {streak.error.message}{kept}; ask again in {wait:.0f} s"
        )
        tail = streak.error.log_tail
        return ErrorBody("quarantined", "create", message, True, tail, retry_after_s=wait)

    def failed(self, key: Key, error: ErrorBody, now: float) -> Streak:
        """One more failure, of `error.phase`; its streak."""
        streak = self._streaks.pop(key, None) or Streak(error.phase)
        self._streaks[key] = streak
        if len(self._streaks) > _REMEMBERED:
            self._streaks.pop(next(iter(self._streaks)))
        streak.phase, streak.error = error.phase, error
        streak.count += 1
        if streak.count >= FAILURES:
            streak.pause = min(2 * streak.pause, _PAUSES[1]) or _PAUSES[0]
            streak.until = now + streak.pause
        return streak

    def succeeded(self, key: Key, phase: str, now: float) -> None:
        """A success ends a streak of its own or an earlier phase."""
        streak = self._streaks.get(key)
        if streak is None:
            return
        if phase == "create" and streak.phase != "create":
            # the instance booted; whether it resets is not known yet
            self.undecided(key, now)
        else:
            del self._streaks[key]

    def undecided(self, key: Key, now: float) -> None:
        """A probe said nothing yet, or was given up: the next one comes after the pause."""
        streak = self._streaks.get(key)
        if streak is not None:
            streak.until = min(streak.until, now + streak.pause)

    def held(self) -> dict[str, int]:
        """Quarantined keys by environment."""
        held: dict[str, int] = {}
        for key, streak in self._streaks.items():
            if streak.count >= FAILURES:
                held[key.environment] = held.get(key.environment, 0) + 1
        return held
