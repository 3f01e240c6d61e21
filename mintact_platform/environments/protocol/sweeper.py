"""One timer for the deadlines of many calls, because a timer for each costs more than the call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar


class Due(Protocol):
    """A call with a next moment at which something has to happen to it."""

    due: float


C = TypeVar("C", bound=Due)


class Sweeper(Generic[C]):
    """Visits open calls when they are due, in that order, on a clock of the event loop.

    The timer only ever moves forward to an earlier moment, so that a call which ends in time costs
    one comparison; a call in vain costs one look over the open calls.

    Args:
        calls: those that are open, owned by the caller.
        on_due: told of each call whose `due` passed; it ends the call or sets a later `due`.
    """

    def __init__(self, calls: Mapping[Any, C], on_due: Callable[[C], None]) -> None:
        self._calls = calls
        self._on_due = on_due
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, due: float) -> None:
        """An open call is due at this moment, on `loop.time()`'s clock."""
        if due < self._next:
            self._arm(due)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, math.inf

    def _arm(self, due: float) -> None:
        self.close()
        self._next = due
        self._timer = asyncio.get_running_loop().call_at(due, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._next = None, math.inf
        now = asyncio.get_running_loop().time()
        late = [call for call in self._calls.values() if call.due <= now]
        for call in sorted(late, key=lambda call: call.due):
            self._on_due(call)
        following = min((call.due for call in self._calls.values()), default=math.inf)
        if following < self._next:
            self._arm(following)
