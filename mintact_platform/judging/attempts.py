"""The attempts of one judgement: which failures count, which waits are borne, when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mintact_platform.errors import JudgeError
from mintact_platform.judging.errors import RetryLater, RetryNever

WAITS = 8
"""Waits a judge may ask for (`RetryLater`) before each further one counts as a failed attempt."""


class Failed(Exception):
    """One attempt gave no verdict.

    Attributes:
        wait: seconds the judge asks to wait; None where it just failed.
        final: whether further attempts would fail in the same way.
    """

    def __init__(self, why: str, *, wait: float | None = None, final: bool = False) -> None:
        super().__init__(why)
        self.wait, self.final = wait, final


def failed_by(error: BaseException) -> Failed:
    """What an exception of a judge means; one line of it is kept."""
    said = str(error) if isinstance(error, JudgeError) else f"{type(error).__name__}: {error}"
    why = (said.splitlines() or [type(error).__name__])[0]
    if not isinstance(error, RetryLater):
        return Failed(why, final=isinstance(error, RetryNever))
    try:
        seconds = float(error.seconds)
    except (TypeError, ValueError):
        seconds = math.nan
    return Failed(why, wait=max(0.0, seconds) if math.isfinite(seconds) else None)


@dataclass
class Tries:
    """Counts; pure.

    Attributes:
        retries: attempts after the first.
        backoff: seconds before the first retry, doubled each time; also the least wait.
        patience: seconds left for waits that the judge asks for.
        calls: attempts made.
        failures: attempts that count as failed.
        waits: waits asked for and borne.
        why: of the last one.
        over: whether no further attempt is made.
    """

    retries: int
    backoff: float
    patience: float
    calls: int = 0
    failures: int = 0
    waits: int = 0
    why: str = ""
    over: bool = False

    def count(self, error: Failed) -> float | None:
        """Note a failed attempt.

        Returns:
            Seconds for which everybody who asks the same judge should wait; None where the judge
            asked for no wait, or for a longer one than is borne.
        """
        self.calls += 1
        self.why = str(error)
        if error.wait is None:
            self._fail(final=error.final)
            return None
        wait = max(error.wait, self.backoff)
        if wait > self.patience:
            self.why += f", more than the {self.patience:g} s that are left"
            self.over = True
            return None
        self.patience -= wait
        self.waits += 1
        if self.waits > WAITS:
            self._fail(final=False)
        return wait

    @property
    def rest(self) -> float:
        """Seconds before the next attempt after one that failed."""
        return self.backoff * 2.0 ** (self.failures - 1)

    def __str__(self) -> str:
        attempts = f"{self.calls} attempts" if self.calls != 1 else "1 attempt"
        return f"after {attempts}: {self.why}"

    def _fail(self, *, final: bool) -> None:
        self.failures += 1
        self.over = final or self.failures > self.retries
