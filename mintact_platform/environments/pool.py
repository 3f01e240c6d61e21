"""One pool of leases: what it should hold, what it holds, where the next one comes from."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mintact_platform.environments.client import Lease
from mintact_platform.environments.wire import ImageFormat
from mintact_platform.errors import EnvironmentFailure, MintactError


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Instances of one environment with one set of parameters.

    Attributes:
        environment: registered name, or `module:attribute`.
        params: its parameters.
        instances: leases to hold.
        servers: environment servers to spread them over; empty starts one here.
        python: interpreter of the workers, None for this one.
        image_format: encoding of screenshots.
        bearer_env: name of the variable that holds the servers' bearer token.
    """

    environment: str
    params: Mapping[str, Any] = field(default_factory=dict)
    instances: int = 4
    servers: tuple[str, ...] = ()
    python: str | None = None
    image_format: ImageFormat = "png"
    bearer_env: str | None = None


@dataclass(slots=True)
class PoolStats:
    """A pool in numbers.

    Attributes:
        idle: leases that wait for a rollout.
        busy: leases in use.
        starting: instances that boot.
        failed: instances lost since the start.
        acquired: leases handed out since the start.
        acquire_wait_s: seconds rollouts waited for one, in total.
        boot_s: seconds boots took, in total.
    """

    idle: int = 0
    busy: int = 0
    starting: int = 0
    failed: int = 0
    acquired: int = 0
    acquire_wait_s: float = 0.0
    boot_s: float = 0.0


class Pool:
    """A pool's leases and who waits for them."""

    def __init__(self, name: str, spec: PoolSpec) -> None:
        self.name, self.spec = name, spec
        self.idle: asyncio.Queue[Lease] = asyncio.Queue()
        self.busy: set[Lease] = set()
        self.leases: dict[Lease, asyncio.Event] = {}
        self.seats: list[asyncio.Task[None]] = []
        self.stats = PoolStats()
        self.failure: MintactError | None = None
        self.attempts = 0
        self.tried = asyncio.Event()
        self.avoid: dict[str, float] = {}
        self._turn = 0

    def lost(self, lease: Lease) -> None:
        """Have the lease given back and replaced."""
        if lease in self.leases:
            self.failure = lease.failure or self.failure
            self.leases[lease].set()

    def gone(self, lease: Lease, failure: EnvironmentFailure) -> None:
        """The lease ended at its server; a rollout that uses it finds out by itself."""
        lease.failure = lease.failure or failure
        if lease not in self.busy:
            self.lost(lease)

    def choose_server(self) -> str | None:
        """The server with the fewest of our leases that did not just fail; None without servers."""
        servers = self.spec.servers
        if not servers:
            return None
        self._turn = (self._turn + 1) % len(servers)
        held = Counter(lease.server for lease in self.leases)
        now = time.monotonic()
        return min(
            servers[self._turn :] + servers[: self._turn],
            key=lambda url: (self.avoid.get(url, 0.0) > now, held[url]),
        )
