"""A made site inside a browser's context: its files, what it does wrong, what it keeps."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Route, WebSocketRoute

START = "index.html"
_MAX_ERRORS = 20


async def serve(context: BrowserContext, host: str, files: Mapping[str, bytes | str]) -> list[str]:
    """Answer every request of a context from a site's files; nothing leaves it.

    Args:
        context: of the episode.
        host: made-up name of the site.
        files: path without leading slash → content.

    Returns:
        A list that grows: script errors, requests for what the site has not or for elsewhere.
    """
    errors: list[str] = []

    def wrong(what: str) -> None:
        if len(errors) < _MAX_ERRORS and what not in errors:
            errors.append(what)

    async def answer(route: Route) -> None:
        url = urlsplit(route.request.url)
        if url.netloc != host:
            wrong(f"request outside the site: {route.request.url[:200]}")
            await route.abort()
            return
        body = files.get(url.path.lstrip("/") or START)
        if body is None:
            wrong(f"the site has no file {url.path[:200]!r}")
            await route.fulfill(status=404, body="not found", content_type="text/plain")
            return
        kind = mimetypes.guess_type(url.path if url.path != "/" else START)[0] or "text/plain"
        await route.fulfill(body=body, content_type=f"{kind}; charset=utf-8")

    async def refuse(socket: WebSocketRoute) -> None:
        wrong(f"request outside the site: {socket.url[:200]}")
        await socket.close()

    context.on("weberror", lambda error: wrong(_script_error(error.error)))
    await context.route("**/*", answer)
    await context.route_web_socket("**/*", refuse)
    return errors


async def stored_items(context: BrowserContext, origin: str) -> dict[str, str]:
    """What a site keeps in localStorage, read past its pages, where none of them can lie."""
    stored = await context.storage_state()
    return {
        item["name"]: item["value"]
        for entry in stored["origins"]
        if entry["origin"] == origin
        for item in entry["localStorage"]
    }


def _script_error(error: Any) -> str:
    """Kind, message and place of an error that a page did not catch."""
    places = [line.strip() for line in str(error.stack or "").splitlines() if " at " in line]
    message = (str(error.message).strip().splitlines() or ["unknown"])[0]
    place = f" {places[0]}" if places else ""
    return f"script error: {error.name}: {message}{place}"[:300]
