"""Observers: plugins told what happened, on a thread of their own, never able to hurt a run."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter
from typing import Any

from mintact_platform.registry.names import Registry

LIMIT = 1024
STRIKES = 3


class Observers:
    """Calls the observer hooks, one plugin at a time, behind a bounded queue.

    An exception is written on the plugin's row; three in a row disable that plugin's observers; a
    full queue drops the notice and counts it.

    Args:
        registry: whose plugins are told.

    Attributes:
        dropped: notices dropped because the queue was full.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.dropped = 0
        self._strikes: Counter[str] = Counter()
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(LIMIT)
        self._thread = threading.Thread(target=self._work, daemon=True, name="observers")
        self._thread.start()

    def notify(self, hook: str, **values: Any) -> None:
        """Tell everyone, later."""
        try:
            self._queue.put_nowait((hook, values))
        except queue.Full:
            self.dropped += 1

    def close(self, *, seconds: float = 5.0) -> None:
        """Let the queue run empty for at most so long."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        self._thread.join(seconds)

    def _work(self) -> None:
        while (notice := self._queue.get()) is not None:
            hook, values = notice
            for implementation in getattr(self.registry.manager.hook, hook).get_hookimpls():
                if self._strikes[implementation.plugin_name] < STRIKES:
                    self._call(implementation, values)

    def _call(self, implementation: Any, values: dict[str, Any]) -> None:
        name = implementation.plugin_name
        try:
            implementation.function(*(values[a] for a in implementation.argnames))
            self._strikes[name] = 0
        except Exception as error:
            self._strikes[name] += 1
            for row in self.registry.rows:
                if row.distribution == name:
                    row.error = f"observer: {type(error).__name__}: {error}".splitlines()[0]
