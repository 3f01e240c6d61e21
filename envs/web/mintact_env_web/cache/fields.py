"""The fields of a request: query and body taken apart into names and values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mintact_env_web.cache.exchange import Request

Pair = tuple[str, str]


def query_fields(url: str) -> list[Pair]:
    """Names and values of the query, blank ones kept."""
    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


def body_fields(request: Request) -> list[Pair] | None:
    """Names and values of the body; None for a body that has no fields.

    JSON gives the paths of its leaves (`user.name`, `items.0`), so that equal documents give
    equal fields in whatever order their keys come. A file in a form goes by its name and hash.
    """
    body = request.body
    if not body:
        return []
    kind = request.headers.get("content-type", "").lower()
    if kind.startswith("multipart/form-data"):
        return _multipart(body)
    if kind.startswith("application/x-www-form-urlencoded"):
        return _form(body)
    return _json(body)


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def _form(body: bytes) -> list[Pair] | None:
    try:
        return parse_qsl(body.decode(), keep_blank_values=True)
    except (UnicodeDecodeError, ValueError):
        return None


def _json(body: bytes) -> list[Pair] | None:
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return list(_leaves(json.loads(body), ""))
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any, path: str) -> Iterator[Pair]:
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(inner, dict) or not inner:
        yield path, value if isinstance(value, str) else json.dumps(value)
        return
    for key, one in inner.items():
        yield from _leaves(one, f"{path}.{key}" if path else str(key))


def _multipart(body: bytes) -> list[Pair] | None:
    """Parts between the first line, which is the boundary whatever the header says."""
    boundary = body.partition(b"\r\n")[0]
    if not boundary.startswith(b"--"):
        return None
    pairs = []
    for part in body.split(boundary)[1:]:
        head, found, content = part.partition(b"\r\n\r\n")
        if found:
            pairs.append(_part(head.decode("utf-8", "replace"), content.removesuffix(b"\r\n")))
    return pairs


def _part(head: str, content: bytes) -> Pair:
    pieces = (piece.partition("=") for piece in head.replace("\r\n", ";").split(";"))
    settings = {name.strip().lower(): value.strip().strip('"') for name, _, value in pieces}
    name, file = settings.get("name", ""), settings.get("filename")
    if file is not None:
        return name, f"{file} {digest(content)}"
    return name, content.decode("utf-8", "replace")
