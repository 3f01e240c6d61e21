"""What a worker can do, asked of the worker itself, and refused in one line where it is too little.

A route that exists refuses the method OPTIONS with 405, one that does not with 404; neither does
anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx
from packaging.version import InvalidVersion, Version

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import SyncMode

TESTED = "0.5.23"
"""The release of SGLang that this plugin was written against."""

ROUTES = (
    "/generate",
    "/abort_request",
    "/pause_generation",
    "/continue_generation",
    "/flush_cache",
    "/v1/loads",
)
"""Needed whatever the way of the weights."""

PAUSES = Version("0.5.7")
"""From here on `/pause_generation` knows modes; earlier releases take every pause for an abort."""

EMBEDDED = "mintact-embedded"
_SECONDS = 20.0


@dataclass(frozen=True)
class Capabilities:
    """What a worker is.

    Attributes:
        version: as it says.
        ranks: its tensor-parallel size.
        device: as it says, "" where it does not.
        modes: ways to synchronise weights.
    """

    version: str
    ranks: int
    device: str
    modes: tuple[SyncMode, ...]


async def detect(url: str, http: httpx.AsyncClient, *, needs: Iterable[str]) -> Capabilities:
    """Ask a worker what it can do.

    Args:
        url: its base URL.
        http: with its API key.
        needs: routes it must have besides `ROUTES`.

    Raises:
        ModelServerError: it does not answer, is no SGLang server, or too old a one.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            about = await _json(url, http, "/server_info")
            model = await _json(url, http, "/model_info")
            routes = (*ROUTES, *needs)
            missing = [route for route in routes if not await _has(url, http, route)]
    except TimeoutError:
        raise ModelServerError(
            f"no reply within {_SECONDS:g} s", kind="timeout", where=url
        ) from None
    except httpx.TransportError as error:
        what = str(error) or type(error).__name__
        raise ModelServerError(what, kind="unreachable", where=url) from error
    version = str(about.get("version", "of an unknown version"))
    if "weight_version" not in model:
        missing.append("weight_version in /model_info")
    if missing:
        raise ModelServerError(
            f"SGLang {version} lacks {', '.join(missing)}",
            kind="old",
            where=url,
            next=f"use SGLang {TESTED} or later",
        )
    return Capabilities(
        version=version,
        ranks=int(about.get("tp_size") or 1),
        device=str(about.get("device") or ""),
        modes=_modes(version),
    )


def _modes(version: str) -> tuple[SyncMode, ...]:
    try:
        pauses = version == EMBEDDED or Version(version) >= PAUSES
    except InvalidVersion:
        # built from a checkout: newer than any release
        pauses = True
    return ("drain", "abort_resume", *(("retract", "in_place") if pauses else ()))


async def _json(url: str, http: httpx.AsyncClient, route: str) -> dict[str, Any]:
    reply = await http.get(url + route)
    if reply.status_code in (401, 403):
        raise ModelServerError(
            f"HTTP {reply.status_code}: it wants an API key, or another one",
            kind="http",
            where=url,
            next="name its environment variable in rollout.params.api_key_env",
        )
    try:
        body = reply.json() if reply.status_code == 200 else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ModelServerError(
            f"{route}: HTTP {reply.status_code}, no JSON object: this is no SGLang server",
            kind="http",
            where=url,
            next=f"give the address of a worker, SGLang {TESTED} or later",
        )
    return body


async def _has(url: str, http: httpx.AsyncClient, route: str) -> bool:
    return (await http.request("OPTIONS", url + route)).status_code != 404
