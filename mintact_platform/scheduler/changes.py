"""A counter of changes that any number of tasks may wait on without losing one."""

from __future__ import annotations

import asyncio


class Changes:
    """Read `count` before looking at the state, then wait for it to move on."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Something changed."""
        self.count += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def beyond(self, seen: int, seconds: float) -> None:
        """Return once `count` differs from `seen`, or after so many seconds."""
        if self.count != seen:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(future)
