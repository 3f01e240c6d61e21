"""What a recording must not keep: passwords, tokens and cookies of whoever recorded it. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mintact_env_web.cache.exchange import Entry, Headers, Request, Socket
from mintact_env_web.cache.rules import SECRET, matches

HIDDEN = "redacted"
_REQUEST_HEADERS = (
    *("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"),
    *("x-auth-token", "x-access-token", "x-csrf-token", "x-xsrf-token", "*-authorization"),
)
_COOKIE = re.compile(r"^(\s*[^=;]+)=[^;]*")


def redacted(entry: Entry) -> Entry:
    """An entry without its secrets: headers, cookies, and fields of the names in `rules.SECRET`.

    Names stay, so that one sees that there was a cookie. Bodies of responses stay as they are:
    the replay shows them.
    """
    response = entry.response
    if response is not None:
        response = replace(response, headers=_response_headers(response.headers))
    return replace(entry, request=_request(entry.request), response=response)


def redacted_socket(socket: Socket) -> Socket:
    """A socket without secrets in its URL."""
    return replace(socket, url=_url(socket.url))


def _request(request: Request) -> Request:
    headers = {
        name: HIDDEN if matches(name, _REQUEST_HEADERS) else value
        for name, value in request.headers.items()
    }
    if "referer" in headers:
        headers["referer"] = _url(headers["referer"])
    body = _body(request)
    return replace(request, url=_url(request.url), headers=headers, body=body)


def _response_headers(headers: Headers) -> Headers:
    changed = []
    for name, value in headers:
        if name == "set-cookie":
            value = _COOKIE.sub(rf"\1={HIDDEN}", value)
        elif name == "location":
            value = _url(value)
        changed.append((name, value))
    return tuple(changed)


def _url(url: str) -> str:
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if not any(matches(name, SECRET) for name, _ in pairs):
        return url
    return parts._replace(query=urlencode(_pairs(pairs))).geturl()


def _pairs(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, HIDDEN if matches(name, SECRET) else value) for name, value in pairs]


def _body(request: Request) -> bytes | None:
    body, kind = request.body, request.headers.get("content-type", "").lower()
    if not body:
        return body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    if kind.startswith("application/x-www-form-urlencoded"):
        pairs = parse_qsl(text, keep_blank_values=True)
        hidden = _pairs(pairs)
        return body if hidden == pairs else urlencode(hidden).encode()
    if kind.startswith("multipart/form-data"):
        return _multipart(text).encode()
    try:
        value = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return body
    changed = _json(value)
    return body if changed == value else json.dumps(changed).encode()


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: HIDDEN if _is_secret(k, v) else _json(v) for k, v in value.items()}
    return [_json(one) for one in value] if isinstance(value, list) else value


def _is_secret(name: str, value: Any) -> bool:
    return not isinstance(value, dict | list) and matches(name, SECRET)


def _multipart(text: str) -> str:
    def hide(part: re.Match[str]) -> str:
        return f"{part[1]}{HIDDEN}" if matches(part[2], SECRET) else part[0]

    field = (
        r'(content-disposition:[^\r\n]*\bname="([^"]*)"\r\n(?:[^\r\n]+\r\n)*\r\n)(.*?)(?=\r\n--)'
    )
    return re.sub(field, hide, text, flags=re.IGNORECASE | re.DOTALL)
