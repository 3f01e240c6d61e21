"""`web/live`: pages of the internet, within an allow-list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from mintact_env_web.browser.guard import Policy, refusal
from mintact_env_web.environment import WebEnvironment
from mintact_platform.environments.settings import Pixels, Seconds
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page


class LiveSource:
    """Starts at `task.params["url"]`; has no state check, a judge reads the trajectory.

    Args:
        policy: of the network; a start URL beyond it is refused at once.
    """

    failures: Sequence[str] = ()

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """The start URL.

        Raises:
            ConfigurationError: the task has none, or one that the policy refuses.
        """
        url = task.params.get("url")
        where = f"task {task.id}"
        if not isinstance(url, str):
            raise ConfigurationError("the task has no params.url", where=where)
        host = urlsplit(url).hostname or ""
        reason = refusal(url)
        if reason is None and not self._policy.allows_host(host):
            reason = f"host {host!r} is not among the allowed"
        if reason is not None:
            raise ConfigurationError(reason, where=where, next="change params.url or `hosts`")
        return url

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """Nothing is known about the state of a live site."""
        return None

    async def close(self) -> None:
        """It holds nothing."""


class Live(WebEnvironment):
    """A website of the internet, from the URL in `task.params["url"]`.

    Private and loopback addresses are refused whatever a name resolves to.

    Args:
        hosts: patterns of allowed hosts, such as `*.example.com`; empty for every public host.
        private: `host:port` pairs that may be reached though their address is private.
        width: of the screenshot, pixels.
        height: pixels.
        with_url: begin the observation's text with the URL.
        image_format: encoding of screenshots.
        settle_s: how long a page may take to come to rest.
    """

    def __init__(
        self,
        *,
        hosts: tuple[str, ...] = (),
        private: tuple[str, ...] = (),
        width: Pixels = 1280,
        height: Pixels = 720,
        with_url: bool = False,
        image_format: Literal["jpeg", "png"] = "jpeg",
        settle_s: Seconds = 2.0,
    ) -> None:
        policy = Policy(tuple(hosts), tuple(private))
        super().__init__(
            LiveSource(policy),
            width=width,
            height=height,
            with_url=with_url,
            image_format=image_format,
            network="open",
            policy=policy,
            settle_s=settle_s,
        )
