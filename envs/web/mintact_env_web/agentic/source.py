"""A written site as what a browser environment shows: its files, its world, its check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playwright.async_api import BrowserContext, Page

from mintact_env_web.agentic.checks import Final, failing, holds
from mintact_env_web.agentic.site import WrittenSite
from mintact_env_web.cache.store import Site
from mintact_env_web.cache.world import stage_script
from mintact_env_web.serving import serve, stored_items
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

TODAY = "2025-03-14"
_CLOCK_MS = 1_741_946_400_000
"""Ten o'clock on `TODAY`: all sites live at one moment, so that the same clicks end the same."""


class SitesSource:
    """One episode on a written site; nothing leaves it.

    Args:
        sites: gives the site of a name.

    Attributes:
        errors: script errors, and requests for what the site has not, since the episode began.
        final: what the last check looked at, None before it.
        others: keys in localStorage beside the site's own, at the last check.
    """

    def __init__(self, sites: Callable[[str], WrittenSite]) -> None:
        self.failures: Sequence[str] = ()
        self.errors: list[str] = []
        self.final: Final | None = None
        self.others: Sequence[str] = ()
        self._sites = sites
        self._site: WrittenSite | None = None
        self._origin = ""

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """Serve the task's site inside the context; where it starts."""
        site = self._site = self._sites(str(task.params.get("site", "")))
        host = site.host
        self._origin = f"http://{host}"
        self.final = None
        await context.add_init_script(stage_script(Site(self._origin, _CLOCK_MS, seed=seed)))
        self.errors = await serve(context, host, site.files)
        return f"{self._origin}/"

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """Read the state from the browser's storage and evaluate the task's check on it."""
        assert self._site is not None
        stored = await stored_items(page.context, self._origin)
        self.others = sorted(set(stored) - {self._site.key})
        before = self._site.start
        after = read_state(stored.get(self._site.key))
        self.final = final = Final(before, before if after is None else after, answer)
        name = str(task.params.get("task", ""))
        if not name:
            return None
        check = self._site.task(name).check
        success = holds(check, final)
        return StateCheck(success, float(success), {"failing": failing(check, final)})

    async def close(self) -> None:
        """Nothing is held beyond the context."""


def known(sites: Mapping[str, WrittenSite]) -> Callable[[str], WrittenSite]:
    """Looks a site up by its name; an unknown one is refused with the near match."""

    def find(name: str) -> WrittenSite:
        if name not in sites:
            raise ConfigurationError(
                f"unknown site {name!r}", where="web/sites", next=near_match(name, sites)
            )
        return sites[name]

    return find


def read_state(text: str | None) -> dict[str, Any] | None:
    """A stored state; None where there is none that can be read."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
