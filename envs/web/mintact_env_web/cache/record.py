"""`web/record`: a live site that is recorded while somebody drives it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mintact_env_web.browser.guard import Policy
from mintact_env_web.browser.host import BrowserHost
from mintact_env_web.cache.exchange import Entry, Socket
from mintact_env_web.cache.learn import learn
from mintact_env_web.cache.recorder import Recorder
from mintact_env_web.cache.redact import redacted, redacted_socket
from mintact_env_web.cache.scripts import Call, write_script
from mintact_env_web.cache.store import META, Bodies, Site, save
from mintact_env_web.environment import Info, Observation, WebEnvironment
from mintact_env_web.live import LiveSource
from mintact_platform.environments.settings import Pixels, Seconds
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page


class RecordingSource:
    """Live pages, recorded visit by visit; the directory is written when a visit ends.

    Args:
        url: where every visit begins.
        directory: of the recording; what was recorded there before is replaced.
        policy: of the network.
        size: of the screen, pixels.
        keep_secrets: store passwords, cookies and authorisation headers as they were sent.
    """

    failures: Sequence[str] = ()

    def __init__(
        self,
        url: str,
        directory: Path,
        policy: Policy,
        *,
        size: tuple[int, int],
        keep_secrets: bool = False,
    ) -> None:
        self._live = LiveSource(policy)
        self._url, self._directory = url, directory
        self._keep_secrets = keep_secrets
        self._recorder: Recorder | None = None
        self._visit = 0
        self._site = Site(url, round(time.time() * 1000), *size, seed=secrets.randbits(32))

    @property
    def site(self) -> Site:
        """What was recorded so far."""
        return self._site

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """Begin a visit."""
        await self.finish()
        start = await self._live.open(context, replace(task, params={"url": self._url}), seed)
        if self._visit == 0:
            await asyncio.to_thread(prepare_directory, self._directory)
            self._site = replace(self._site, recorded_ms=round(time.time() * 1000))
        self._recorder = Recorder(Bodies(self._directory), self._visit)
        await self._recorder.begin(context)
        return start

    async def finish(self) -> None:
        """End the visit and write it."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        entries, sockets = await recorder.end()
        self._visit += 1
        if not self._keep_secrets:
            entries = [redacted(entry) for entry in entries]
            sockets = [redacted_socket(socket) for socket in sockets]
        await asyncio.to_thread(self._write, entries, sockets)

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """A live site's state is unknown; the visit is over."""
        await self.finish()
        return None

    async def close(self) -> None:
        """Write what was recorded."""
        await self.finish()

    def _write(self, entries: Sequence[Entry], sockets: Sequence[Socket]) -> None:
        site = replace(
            self._site,
            entries=(*self._site.entries, *entries),
            sockets=(*self._site.sockets, *sockets),
        )
        self._site = replace(site, rules=learn(site.entries, site.rules))
        save(self._site, self._directory)


class Record(WebEnvironment):
    """A live site that is recorded while it is driven: by an agent, or by you with `mintact play`.

    The recording is written when the episode ends; the calls go to `script.jsonl`. A second
    episode is a second visit, from which it is learnt what changes by itself.

    Args:
        url: where it begins.
        directory: of the recording.
        hosts: patterns of hosts that may be reached; empty for every public host.
        private: `host:port` pairs that may be reached though their address is private.
        width: of the screenshot, pixels.
        height: pixels.
        with_url: begin the observation's text with the URL.
        keep_secrets: store passwords, cookies and authorisation headers as they were sent.
        settle_s: how long a page may take to come to rest.
    """

    source: RecordingSource

    def __init__(
        self,
        *,
        url: str,
        directory: str,
        hosts: tuple[str, ...] = (),
        private: tuple[str, ...] = (),
        width: Pixels = 1280,
        height: Pixels = 720,
        with_url: bool = False,
        keep_secrets: bool = False,
        settle_s: Seconds = 3.0,
    ) -> None:
        policy = Policy(tuple(hosts), tuple(private))
        self._directory_of_site = Path(directory).expanduser()
        size = (width, height)
        source = RecordingSource(
            url, self._directory_of_site, policy, size=size, keep_secrets=keep_secrets
        )
        super().__init__(
            source,
            width=width,
            height=height,
            with_url=with_url,
            network="open",
            policy=policy,
            settle_s=settle_s,
        )
        self._calls: list[Call] = []

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin a visit; the recorder has a browser to itself."""
        if self._host is None:
            self._host = BrowserHost("open")
            await self._host.acquire()
        await self.source.finish()
        self._calls = []
        return await super().reset(seed=seed, options=options)

    async def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """See `WebEnvironment.step`; `stop` ends the visit."""
        self._calls.append(dict(action.get("arguments") or {}))
        result = await super().step(action)
        if result[2]:
            await self.source.finish()
        await asyncio.to_thread(write_script, self._directory_of_site, self._calls)
        return result


def prepare_directory(directory: Path) -> None:
    """An empty directory for a recording; tasks and scripts of an earlier one stay.

    Raises:
        ConfigurationError: something else lies there.
    """
    if directory.exists() and any(directory.iterdir()) and not (directory / META).exists():
        raise ConfigurationError(
            "is not empty and not a recorded site",
            where=str(directory),
            next="name a new directory",
        )
    shutil.rmtree(directory / "bodies", ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
