"""The table of leases: who may call which instance, and what a repeated call gets. Pure.

Time is passed in as `now`, and the running of calls is the caller's: the table only decides
whether a call runs, joins the same call already running, gets the recorded reply, or is refused.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from mintact_platform.environments.protocol.wire import ErrorBody

R = TypeVar("R")
_REMEMBERED = 256
_FORBIDDEN = 4096


class Refusal(Exception):
    """A call that is answered with an error.

    Attributes:
        status: HTTP status.
        error: the body.
    """

    def __init__(self, status: int, error: ErrorBody) -> None:
        super().__init__(error.message)
        self.status, self.error = status, error


class Call(NamedTuple):
    """What makes two calls on one lease the same call.

    Attributes:
        do: `reset`, `step` or `evaluate`.
        episode: the client's name of the episode.
        step: number of the step, counted from 0 after each reset.
    """

    do: Literal["reset", "step", "evaluate"]
    episode: str
    step: int


class Decision(NamedTuple):
    """`run` it, `join` the same call already running, or `replay` the recorded reply."""

    action: Literal["run", "join", "replay"]
    reply: Any = None


_RUN, _JOIN = Decision("run"), Decision("join")


@dataclass
class LeaseRecord(Generic[R]):
    """One lease.

    Attributes:
        id: public name.
        key: the client's idempotency key.
        request: what was asked for; the same key with another request is a conflict.
        token: fencing token, needed for every call.
        ttl: seconds it lives without a call or heartbeat.
        expires_at: moment it is reaped, on the caller's clock.
        episode: the current episode, "" before the first reset.
        next_step: number of the only step that may run now.
        running: the call in flight.
        recorded: the last reply by kind of call, as long as nothing happened since.
        past: recent episodes, which can not be started again.
        failed: the episode failed; only a reset helps.
        broken: why the instance is gone.
    """

    id: str
    key: str
    request: object
    token: str
    ttl: float
    expires_at: float
    episode: str = ""
    next_step: int = 0
    running: Call | None = None
    recorded: dict[str, tuple[Call, R]] = field(default_factory=dict)
    past: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    failed: bool = False
    broken: ErrorBody | None = None


class LeaseTable(Generic[R]):
    """All leases of a server.

    Args:
        capacity: leases that may exist at once.
        names: makes unguessable names and tokens.
    """

    def __init__(
        self, capacity: int, names: Callable[[], str] = lambda: secrets.token_hex(12)
    ) -> None:
        self.capacity = capacity
        self._names = names
        self._by_id: dict[str, LeaseRecord[R]] = {}
        self._by_key: dict[str, LeaseRecord[R]] = {}
        self._cancelled: deque[str] = deque(maxlen=_FORBIDDEN)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[LeaseRecord[R]]:
        return iter(list(self._by_id.values()))

    def create(
        self, key: str, request: object, ttl: float, now: float
    ) -> tuple[LeaseRecord[R], bool]:
        """The lease of this key, and whether it is new.

        Raises:
            Refusal: 409 for the key of another request, 410 for a cancelled key, 503 when full.
        """
        known = self._by_key.get(key)
        if known is not None:
            if known.request != request:
                raise _refusal(409, "conflict", "create", "this key made another lease", False)
            known.expires_at = max(known.expires_at, now + known.ttl)
            return known, False
        if key in self._cancelled:
            raise _refusal(
                410,
                "cancelled",
                "create",
                "this key's lease was given back: a new lease needs a new key",
                False,
            )
        if len(self._by_id) >= self.capacity:
            raise _refusal(503, "full", "create", f"all {self.capacity} leases are taken")
        record: LeaseRecord[R] = LeaseRecord(
            self._names(), key, request, self._names(), ttl, now + ttl
        )
        self._by_id[record.id] = self._by_key[key] = record
        return record, True

    def find(self, lease: str, token: str, phase: str, now: float) -> LeaseRecord[R]:
        """The lease, its life extended.

        Raises:
            Refusal: 410 when it is gone, its instance died, or the token is not its own.
        """
        record = self._by_id.get(lease)
        if record is None:
            raise _refusal(410, "expired", phase, "no such lease: released, reaped or never made")
        if not secrets.compare_digest(record.token.encode(), token.encode()):
            raise _refusal(410, "fenced", phase, "the lease token is not the current one")
        if record.broken is not None:
            raise Refusal(410, record.broken)
        record.expires_at = now + record.ttl
        return record

    def begin(self, record: LeaseRecord[R], call: Call) -> Decision:
        """Decide on a call; `run` obliges the caller to `finish` it.

        Raises:
            Refusal: 409 for a wrong number, an old episode, or a lease busy with another call.
        """
        if record.running is not None:
            if record.running == call:
                return _JOIN
            raise _refusal(409, "busy", call.do, f"{record.running.do} is still running")
        recorded = record.recorded.get(call.do)
        if recorded is not None and recorded[0] == call:
            return Decision("replay", recorded[1])
        if call.do == "reset":
            self._start_episode(record, call)
        else:
            self._continue_episode(record, call)
        record.running = call
        return _RUN

    def finish(self, record: LeaseRecord[R], call: Call, reply: R, *, ok: bool, now: float) -> None:
        """Record the reply of a call that ran; after a failure only a reset is allowed."""
        record.running = None
        record.expires_at = now + record.ttl
        if call.do == "evaluate" and not ok:
            return  # reading the state again may succeed
        record.recorded[call.do] = (call, reply)
        record.failed = record.failed or not ok

    def break_(self, record: LeaseRecord[R], error: ErrorBody) -> None:
        """The instance is gone: every later call gets 410 and this error."""
        record.running = None
        record.broken = record.broken or error

    def remove(self, record: LeaseRecord[R]) -> None:
        """Forget a lease; its name, token and replies mean nothing any more."""
        self._by_id.pop(record.id, None)
        self._by_key.pop(record.key, None)

    def cancel(self, key: str) -> LeaseRecord[R] | None:
        """Forbid the key, and return its lease if it has one; a late creation then finds 410."""
        self._cancelled.append(key)
        return self._by_key.get(key)

    def expired(self, now: float) -> list[LeaseRecord[R]]:
        """Leases whose time ran out; a call in flight keeps its lease alive."""
        return [r for r in self if r.running is None and r.expires_at <= now]

    def _start_episode(self, record: LeaseRecord[R], call: Call) -> None:
        if call.episode == record.episode or call.episode in record.past:
            raise _refusal(409, "conflict", "reset", f"episode {call.episode!r} was already run")
        if record.episode:
            record.past.append(record.episode)
        record.episode, record.next_step, record.failed = call.episode, 0, False
        record.recorded.clear()

    def _continue_episode(self, record: LeaseRecord[R], call: Call) -> None:
        if not record.episode or record.episode != call.episode:
            raise _refusal(
                409, "conflict", call.do, f"episode {call.episode!r} is not the current one"
            )
        if record.failed:
            raise _refusal(409, "conflict", call.do, "the episode failed; reset first")
        if call.step != record.next_step:
            raise _refusal(
                409, "conflict", call.do, f"expected step {record.next_step}, got {call.step}"
            )
        if call.do == "step":
            record.next_step += 1
            record.recorded.clear()


def _refusal(status: int, kind: str, phase: str, message: str, retryable: bool = True) -> Refusal:
    return Refusal(status, ErrorBody(kind, phase, message, retryable))
