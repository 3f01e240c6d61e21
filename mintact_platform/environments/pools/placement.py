"""Which of its servers a pool asks for its next lease."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from mintact_platform.environments.pools.servers import Server
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, MintactError

AVOID = 5.0
"""Seconds for which a server that failed to boot an instance comes last."""
_MOVE = 1.25
_UNKNOWN = 1024
_FULL = 2.0

_log = logging.getLogger(__name__)


class Placement:
    """Spreads a pool over servers in proportion to their free slots.

    Args:
        pool: its name, for the log.
        servers: to choose from; empty for the one of this machine.

    Attributes:
        refused: servers that will never host this pool, with their reason.
        booting: leases asked for and not made yet.
    """

    def __init__(self, pool: str, servers: Sequence[Server]) -> None:
        self._pool, self._servers = pool, tuple(servers)
        self.refused: dict[Server, ConfigurationError] = {}
        self.booting: Counter[Server] = Counter()
        self._failed: set[Server] = set()
        self._avoid: dict[Server, float] = {}
        self._told: dict[Server, float] = {}
        self._turn = 0

    def choose(self, held: Mapping[Server, int]) -> Server:
        """The server of which this pool has the smallest share, failed and silent ones last.

        Args:
            held: leases of this pool by server.

        Raises:
            ConfigurationError: every server refused.
        """
        willing = self.willing
        if not willing:
            raise next(iter(self.refused.values()))
        self._turn = (self._turn + 1) % len(willing)
        now = time.monotonic()
        known = [server.free for server in willing if server.free is not None]

        def order(server: Server) -> tuple[bool, bool, bool, float]:
            late = max(self._told.get(server, 0.0), self._avoid.get(server, 0.0))
            share = self._share(server, held, default=max(known, default=_UNKNOWN))
            return (not server.trusted, self._told.get(server, 0.0) > now, late > now, share)

        return min(willing[self._turn :] + willing[: self._turn], key=order)

    def wait(self, server: Server) -> float:
        """Seconds until the server wants to be asked again."""
        return max(0.0, self._told.get(server, 0.0) - time.monotonic())

    def failed(self, server: Server, failure: MintactError) -> None:
        """A server made no lease: it comes last for a while, or never again."""
        self._failed.add(server)
        if isinstance(failure, ConfigurationError):
            self.refused[server] = failure
            if self._servers:
                _log.warning("%s: goes on without %s: %s", self._pool, server.url, failure.what)
            return
        now = time.monotonic()
        self._avoid[server] = now + AVOID
        told = told_to_wait(failure)
        if told is not None:
            self._told[server] = now + told

    def back(self, server: Server) -> None:
        """A server was restarted or answers again: what it said before may not hold any more."""
        for memory in (self.refused, self._avoid, self._told):
            memory.pop(server, None)

    @property
    def willing(self) -> list[Server]:
        """Servers that did not refuse."""
        return [server for server in self._servers if server not in self.refused]

    @property
    def tried(self) -> bool:
        """Whether every server failed to make a lease at least once."""
        return all(server in self._failed for server in self._servers)

    def crowded(self, held: Mapping[Server, int]) -> Server | None:
        """A server that should give a lease up: its share is well above what another's would be."""
        now = time.monotonic()
        known = [s for s in self.willing if s.trusted and s.free is not None and held.get(s, 0) > 1]
        shares = {s: held[s] / (held[s] + self.booting[s] + (s.free or 0)) for s in known}
        most = max(known, key=shares.__getitem__, default=None)
        others = [
            self._share(server, held, default=0)
            for server in self.willing
            if server is not most
            and server.trusted
            and max(self._told.get(server, 0.0), self._avoid.get(server, 0.0)) <= now
        ]
        if most is None or not others:
            return None
        return most if shares[most] >= _MOVE * min(others) else None

    def _share(self, server: Server, held: Mapping[Server, int], default: int) -> float:
        """The share of its slots that this pool would hold with one more lease there."""
        taken = held.get(server, 0) + self.booting[server]
        free = default if server.free is None else server.free
        return (taken + 1) / (taken + free) if free > 0 else float("inf")


def told_to_wait(failure: MintactError) -> float | None:
    """Seconds after which the server wants to be asked again; None where it did not say."""
    if not isinstance(failure, EnvironmentFailure):
        return None
    if failure.retry_after is None and failure.kind == "full":
        return _FULL
    return failure.retry_after
