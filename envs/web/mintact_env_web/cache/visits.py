"""Records a site by a script: visits it, learns what changes between visits, and plays it back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from mintact_env_web.cache.environment import Cache
from mintact_env_web.cache.learn import from_pairs, pair
from mintact_env_web.cache.record import Record
from mintact_env_web.cache.scripts import Call, write_script
from mintact_env_web.cache.store import Site, load, save_meta
from mintact_env_web.environment import WebEnvironment
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task

SETTLE_S = 10.0
"""Longer than an episode allows: what a slow site was not asked for is missed in every replay."""
PLAYBACKS = 2
"""Rounds in which misses of the playback are looked at to learn from."""


@dataclass(frozen=True)
class Recorded:
    """What a recording came to.

    Attributes:
        site: as written.
        misses: requests of the last playback that were not answered.
        documents: those of them without which an episode fails.
    """

    site: Site
    misses: tuple[str, ...]
    documents: tuple[str, ...]


async def record(
    url: str,
    directory: Path,
    *,
    script: Sequence[Call] = (),
    visits: int = 2,
    hosts: Sequence[str] = (),
    private: Sequence[str] = (),
    size: tuple[int, int] = (1280, 720),
    keep_secrets: bool = False,
    settle_s: float = SETTLE_S,
) -> Recorded:
    """Visit a site and write a recording that replays.

    The address of the start URL itself may be private: whoever gives it means it.

    Args:
        url: where every visit begins.
        directory: of the recording; what was recorded there before is replaced.
        script: calls that are carried out at every visit.
        visits: how often; two or more tell what changes by itself.
        hosts: patterns of hosts that may be reached; empty for every public host.
        private: further `host:port` pairs that may be reached though their address is private.
        size: of the screen, pixels.
        keep_secrets: store passwords, cookies and authorisation headers as they were sent.
        settle_s: how long a page may take to come to rest after each call. What it has not asked
            for by then may be missing from the recording.

    Raises:
        ConfigurationError: no Chromium, a URL that is none, or a directory that is no recording.
        EnvironmentFailure: the site cannot be reached.
    """
    environment = Record(
        url=url,
        directory=str(directory),
        hosts=tuple(hosts),
        private=(address_of(url), *private),
        width=size[0],
        height=size[1],
        keep_secrets=keep_secrets,
        settle_s=settle_s,
    )
    task = Task("record", "", "web")
    try:
        for _ in range(visits):
            await drive(environment, task, script)
            await environment.source.finish()
    finally:
        await environment.close()
    await asyncio.to_thread(write_script, directory, script)
    return await playback(directory, script, settle_s=settle_s)


async def playback(
    directory: Path, script: Sequence[Call], *, settle_s: float = SETTLE_S
) -> Recorded:
    """Replay a recording and learn from what it misses.

    Args:
        directory: of the recording.
        script: the calls that it was recorded with.
        settle_s: see `record`.
    """
    for remaining in reversed(range(PLAYBACKS + 1)):
        site = await asyncio.to_thread(load, directory)
        environment = Cache(
            sites=str(directory.parent), width=site.width, height=site.height, settle_s=settle_s
        )
        source = environment.source
        task = Task("playback", "", "web", params={"site": directory.name})
        try:
            await drive(environment, task, script, ends=False)
        except EnvironmentFailure:
            if not source.failures:
                raise
        finally:
            await environment.close()
        first = [entry.request for entry in site.entries if entry.visit == 0]
        rules = from_pairs(pair(first, source.requests, site.rules), site.rules)
        if rules == site.rules or not remaining:
            break
        await asyncio.to_thread(save_meta, replace(site, rules=rules), directory)
    return Recorded(site, tuple(source.counts.missed), tuple(source.counts.documents))


async def drive(
    environment: WebEnvironment, task: Task, script: Sequence[Call], *, ends: bool = True
) -> str | None:
    """An episode of calls; the answer that it stops with, None when it does not stop.

    Args:
        environment: is reset.
        task: of the episode.
        script: calls.
        ends: whether `stop` is carried out when the script does not end with it.
    """
    await environment.reset(seed=0, options={"task": task.to_json()})
    for call in script:
        result = await environment.step({"name": "browser_use", "arguments": dict(call)})
        if result[2]:
            return str(call.get("response") or "")
    if ends:
        await environment.step({"name": "browser_use", "arguments": {"action": "stop"}})
    return None


def address_of(url: str) -> str:
    """`host:port` of a URL.

    Raises:
        ConfigurationError: it has none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            "not a web address", where=repr(url), next="begin it with https://"
        )
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
