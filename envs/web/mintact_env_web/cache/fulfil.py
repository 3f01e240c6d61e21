"""Recorded responses in the form in which a browser takes them without asking the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urljoin

from mintact_env_web.cache.exchange import Entry, Headers
from mintact_env_web.cache.ranges import cut, span_of

_DROPPED = frozenset(
    {
        # of the transport: bodies are stored decoded and whole
        *("content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"),
        *("trailer", "upgrade", "alt-svc"),
        # would make the browser ask where nobody answers
        *("strict-transport-security", "report-to", "reporting-endpoints", "nel", "expect-ct"),
        *("content-security-policy-report-only", "clear-site-data"),
    }
)
_EMPTY = {
    "script": ("text/javascript", b""),
    "stylesheet": ("text/css", b""),
    "document": ("text/html", b""),
    "image": (
        "image/gif",
        b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,"
        b"\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;",
    ),
}
Fulfilment = dict[str, Any]
"""Arguments of Playwright's `route.fulfill`."""


def recorded(
    entries: Sequence[Entry],
    bodies: Sequence[bytes],
    asked_range: str | None,
    cookies: Sequence[str] = (),
) -> Fulfilment:
    """A recorded response, cut to the range that is asked for.

    Args:
        entries: one, or several ranges of one body.
        bodies: of the entries.
        asked_range: value of the request's `range` header.
        cookies: further `set-cookie` values.
    """
    response = entries[0].response
    assert response is not None
    headers = response_headers(response.headers, cookies)
    spans = [span_of(entry) for entry in entries]
    held = [(span, body) for span, body in zip(spans, bodies, strict=True) if span is not None]
    exact = entries[0].request.headers.get("range") == asked_range
    if asked_range is None or exact or len(held) != len(entries):
        return {"status": response.status, "headers": headers, "body": bodies[0]}
    piece = cut(asked_range, held)
    if piece is None:
        return {"status": 416, "headers": headers, "body": b""}
    headers["content-range"] = piece[1]
    return {"status": 206, "headers": headers, "body": piece[0]}


def moved(url: str, location: str, cookies: Sequence[str]) -> Fulfilment:
    """A page that goes on to where a redirect leads.

    A browser follows a fulfilled redirect into the network, past every route; a page's own
    navigation it asks for.
    """
    target = json.dumps(urljoin(url, location)).replace("<", "\\u003c")
    script = f"const to = {target};\nlocation.replace(to.includes('#') ? to : to + location.hash);"
    headers = response_headers((("content-type", "text/html; charset=utf-8"),), cookies)
    body = f"<!doctype html><meta name=referrer content=unsafe-url><script>{script}</script>"
    return {"status": 200, "headers": headers, "body": body.encode()}


def again(url: str, body: bytes, kind: str) -> Fulfilment | None:
    """A page that sends a form on, for a redirect that keeps method and body (307, 308).

    Args:
        url: where it leads.
        body: of the request.
        kind: its content type.

    Returns:
        None for a body that no form can send.
    """
    if not kind.startswith("application/x-www-form-urlencoded"):
        return None
    fields = json.dumps(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    script = f"""const form = document.createElement("form");
form.method = "post";
form.action = {json.dumps(url)};
for (const [name, value] of {fields}) {{
  const field = document.createElement("input");
  Object.assign(field, {{ type: "hidden", name, value }});
  form.append(field);
}}
document.body.append(form);
HTMLFormElement.prototype.submit.call(form);"""
    script = script.replace("</", "<\\/")
    page = f"<!doctype html><body><script>{script}</script>".encode()
    return {"status": 200, "headers": {"content-type": "text/html; charset=utf-8"}, "body": page}


def empty(kind: str) -> Fulfilment:
    """The answer of an endpoint that nothing depends on."""
    if kind not in _EMPTY:
        return {"status": 204, "headers": {"access-control-allow-origin": "*"}, "body": b""}
    content_type, body = _EMPTY[kind]
    return {"status": 200, "headers": {"content-type": content_type}, "body": body}


def missing() -> Fulfilment:
    """The answer to what was not recorded: an error that a page can handle."""
    headers = {"content-type": "text/plain; charset=utf-8"}
    return {"status": 404, "headers": headers, "body": b"not recorded"}


def response_headers(headers: Headers, cookies: Sequence[str] = ()) -> dict[str, str]:
    """Headers by name, without those of the transport; repeated ones joined."""
    joined: dict[str, str] = {}
    for name, value in (*headers, *(("set-cookie", cookie) for cookie in cookies)):
        if name in _DROPPED:
            continue
        # cookies contain commas; the driver splits them at line ends
        separator = "\n" if name == "set-cookie" else ", "
        joined[name] = f"{joined[name]}{separator}{value}" if name in joined else value
    return joined
