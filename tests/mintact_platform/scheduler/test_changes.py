"""Waiting for a change never misses one that came between the look and the wait."""

from __future__ import annotations

import asyncio

from mintact_platform.scheduler.changes import Changes


async def test_a_change_between_look_and_wait_is_seen_at_once():
    changes = Changes()
    seen = changes.count
    changes.tell()
    async with asyncio.timeout(60):
        await changes.beyond(seen, 60)


async def test_everyone_who_waits_is_told():
    changes = Changes()
    waiting = [asyncio.create_task(changes.beyond(changes.count, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    changes.tell()
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
    assert not changes._waiting


async def test_without_a_change_the_wait_ends_by_itself_and_leaves_nothing():
    changes = Changes()
    await changes.beyond(changes.count, 0.01)
    assert not changes._waiting
