"""Staleness: how many groups of a domain may be under way, and which come too late."""

from __future__ import annotations

from typing import Literal

OnStale = Literal["evict", "train"]


def may_start(
    *,
    in_flight: int,
    queued: int,
    quota: float,
    max_staleness: int,
    sync_every: int,
    steps_since_push: int,
) -> bool:
    """Whether a group begun now can still be trained on within η weight versions.

    Until its version is η + 1 pushes old, (η + 1)·K − s batches are formed, each with q_d groups
    of the domain; so many may be under way. The bound is per domain: a fast domain's backlog never
    locks a slow one out.

    Args:
        in_flight: groups of the domain begun and not ended.
        queued: groups of the domain in the queue.
        quota: q_d.
        max_staleness: η, in weight versions.
        sync_every: K, trainer steps between pushes.
        steps_since_push: s, batches formed since the last push.
    """
    batches = (max_staleness + 1) * sync_every - steps_since_push
    return in_flight + queued < batches * quota


def is_stale(*, oldest_version: int, version: int, max_staleness: int) -> bool:
    """Whether a group's oldest supervised token is more than η versions old; -1 never is."""
    return oldest_version >= 0 and version - oldest_version > max_staleness
