"""A synthetic site as what a browser environment shows: routed files, and a check of its state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from playwright.async_api import BrowserContext, Page

from mintact_env_web.serving import serve, stored_items
from mintact_env_web.synth.capabilities import capability_of, templates
from mintact_env_web.synth.generator import build
from mintact_env_web.synth.site import Ending, Site
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

_KEY = "site"
_RECENT = 256


@lru_cache(_RECENT)
def recent(seed: int, category: str | None, style: str | None, include: tuple[str, ...]) -> Site:
    """A site, kept for the episodes of the same group."""
    return build(seed, category=category, style=style, include=include)


def site_of(task: Task) -> Site:
    """The site a task takes place on."""
    p = task.params
    return recent(p["site"], p.get("category"), p.get("style"), tuple(p.get("include", ())))


class SynthSource:
    """One episode on a synthetic site.

    Attributes:
        errors: script errors and requests for what the site has not, since the episode began; a
            site that has any is not used.
    """

    def __init__(self) -> None:
        self.failures: Sequence[str] = ()
        self.errors: list[str] = []
        self._site: Site | None = None
        self._context: BrowserContext | None = None

    async def open(self, context: BrowserContext, task: Task, seed: int) -> str:
        """Serve the task's site inside the context; where it starts."""
        site = self._site = site_of(task)
        self._context = context
        self.errors = await serve(context, site.host, site.files)
        return site.start

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """Read the state from the browser's storage, where no page can lie about it."""
        assert self._site is not None
        assert self._context is not None
        stored = await stored_items(self._context, f"http://{self._site.host}")
        after = json.loads(stored.get(_KEY, "{}"))
        return judge(self._site, task.params, after, answer)

    async def close(self) -> None:
        """Nothing is held beyond the context."""


def judge(
    site: Site, params: Mapping[str, Any], after: Mapping[str, Any], answer: str | None
) -> StateCheck:
    """Whether a task is done and nothing else was changed. Pure.

    Args:
        site: where.
        params: the task's `template` and `values`.
        after: the final state by capability; what is missing was never touched.
        answer: what the agent said when it stopped.
    """
    template, own = templates()[params["template"]], capability_of(params["template"]).name
    before = {name: site.content[name]["state"] for name in site.capabilities}
    spoiled = [
        name
        for name in site.capabilities
        if name != own
        and name not in template.touches
        and after.get(name, before[name]) != before[name]
    ]
    end = Ending(before[own], after.get(own, before[own]), answer, site.content[own])
    done = bool(template.done(end, params["values"]))
    success = done and not spoiled
    return StateCheck(success, float(success), {"done": done, "also_changed": spoiled})
