"""How often a judge is asked: a token bucket, and pauses that hold everyone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_NEVER = float("-inf")


class RateLimit:
    """At most so many requests a minute, in the order in which they were waited for.

    Args:
        per_minute: requests; None sets no limit, pauses still hold.
        burst: requests that may go at once after a quiet while.
        clock: monotonic seconds.
        sleep: waits.

    Raises:
        ValueError: a number is not above zero.
    """

    def __init__(
        self,
        per_minute: float | None = None,
        *,
        burst: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if burst < 1 or (per_minute is not None and not per_minute > 0):
            raise ValueError(f"{per_minute} requests a minute with a burst of {burst}")
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._slack = (burst - 1) * self._interval
        self._clock, self._sleep = clock, sleep
        self._due = self._resume = _NEVER
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Return when the next request may be sent; a cancelled wait costs nobody a request."""
        async with self._turn:
            while (pause := self._pause()) > 0:
                await self._sleep(pause)
            # the bucket as one number: when it will be full again
            self._due = max(self._due, self._clock()) + self._interval

    def pause(self, seconds: float) -> None:
        """Let nobody through for so long; a shorter pause never ends a longer one."""
        self._resume = max(self._resume, self._clock() + seconds)

    def _pause(self) -> float:
        return max(self._resume, self._due - self._slack) - self._clock()
