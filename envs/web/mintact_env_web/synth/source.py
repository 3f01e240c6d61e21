"""A synthetic site as what a browser environment shows: routed files, and a check of its state."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from playwright.async_api import BrowserContext, Page, Route

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
        self.errors = errors = []
        context.on("weberror", lambda error: errors.append(str(error.error)))

        async def answer(route: Route) -> None:
            reply = _response(site, route.request.url)
            if reply["status"] != 200:
                errors.append(f"{reply['status']} {route.request.url}")
            await route.fulfill(**reply)

        await context.route(f"http://{site.host}/**", answer)
        return site.start

    async def check(self, page: Page, task: Task, answer: str | None) -> StateCheck | None:
        """Read the state from the browser's storage, where no page can lie about it."""
        assert self._site is not None
        assert self._context is not None
        after = await _state(self._context, f"http://{self._site.host}")
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


def _response(site: Site, url: str) -> dict[str, Any]:
    path = url.split("://", 1)[1].partition("/")[2].partition("?")[0].partition("#")[0]
    body = site.files.get(path or "index.html")
    if body is None:
        return {"status": 404, "body": "not found", "content_type": "text/plain"}
    kind = mimetypes.guess_type(path or "index.html")[0] or "application/octet-stream"
    return {"status": 200, "body": body, "content_type": f"{kind}; charset=utf-8"}


async def _state(context: BrowserContext, origin: str) -> dict[str, Any]:
    stored = await context.storage_state()
    for entry in stored["origins"]:
        if entry["origin"] == origin:
            for item in entry["localStorage"]:
                if item["name"] == _KEY:
                    state: dict[str, Any] = json.loads(item["value"])
                    return state
    return {}
