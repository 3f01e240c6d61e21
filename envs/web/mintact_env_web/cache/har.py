"""HAR 1.2, the browsers' own format of recordings: read into a recorded site, and written from one.

WebSocket messages go by `_webSocketMessages` and kinds by `_resourceType`, as Chromium's developer
tools write them; visits by `_visit`, which other programs ignore.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mintact_env_web.cache.exchange import Entry, Frame, Headers, Request, Response, Socket
from mintact_env_web.cache.record import prepare_directory
from mintact_env_web.cache.redact import redacted, redacted_socket
from mintact_env_web.cache.store import Bodies, Site, load, save
from mintact_platform import __version__
from mintact_platform.errors import ConfigurationError

_TEXT = ("text/", "application/json", "application/javascript", "application/xml", "image/svg")


def import_har(path: Path, directory: Path, *, keep_secrets: bool = False) -> Site:
    """Read a HAR file into a directory, as if it had been recorded here.

    Args:
        path: of the file; bodies in files beside it (`_file`) are read too.
        directory: of the recording; what was recorded there before is replaced.
        keep_secrets: store passwords, cookies and authorisation headers as they are.

    Raises:
        ConfigurationError: not HAR, or without a document to start at.
    """
    log = _read_log(path)
    begun = min((_time(entry, path) for entry in log), default=None)
    if begun is None:
        raise ConfigurationError("has no entries", where=str(path))
    prepare_directory(directory)
    bodies = Bodies(directory)
    entries: list[Entry] = []
    sockets: list[Socket] = []
    for line in sorted(log, key=lambda one: _time(one, path)):
        try:
            url = line["request"]["url"]
            if url.startswith(("ws:", "wss:")):
                sockets.append(_socket(line))
            elif url.startswith(("http:", "https:")):
                entries.append(_entry(line, begun, bodies, path.parent))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"an entry is malformed: {error!r}", where=str(path)) from None
    if not keep_secrets:
        entries = [redacted(entry) for entry in entries]
        sockets = [redacted_socket(socket) for socket in sockets]
    start = next((e.request.url for e in entries if _is_page(e)), None)
    if start is None:
        raise ConfigurationError("has no document to start at", where=str(path))
    recorded_ms = round(begun.timestamp() * 1000)
    site = Site(start, recorded_ms, entries=tuple(entries), sockets=tuple(sockets))
    save(site, directory)
    return site


def export_har(directory: Path, path: Path) -> None:
    """Write a recorded site as a HAR file with all bodies inside.

    Raises:
        ConfigurationError: not a recorded site.
    """
    site, bodies = load(directory), Bodies(directory)
    entries = [_entry_har(site, entry, bodies) for entry in site.entries]
    entries += [_socket_har(site, socket) for socket in site.sockets]
    log = {
        "version": "1.2",
        "creator": {"name": "mintact", "version": __version__},
        "pages": [],
        "entries": entries,
    }
    path.write_text(json.dumps({"log": log}, indent=1, ensure_ascii=False) + "\n")


# ---- reading -----------------------------------------------------------------------------------


def _read_log(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))["log"]["entries"]
    except FileNotFoundError:
        raise ConfigurationError("no such file", where=str(path)) from None
    except (ValueError, KeyError, TypeError):
        entries = None
    if not isinstance(entries, list):
        raise ConfigurationError(
            "not a HAR file", where=str(path), next="save one as 'HAR with content'"
        )
    return entries


def _time(line: Mapping[str, Any], path: Path) -> datetime:
    try:
        return datetime.fromisoformat(line["startedDateTime"])
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError("an entry has no valid startedDateTime", where=str(path)) from None


def _entry(line: Mapping[str, Any], begun: datetime, bodies: Bodies, beside: Path) -> Entry:
    asked, answer = line["request"], line["response"]
    headers = {name: value for name, value in _headers(asked["headers"])}
    url = asked["url"].partition("#")[0]
    kind = str(line.get("_resourceType") or _kind(asked, answer)).lower()
    request = Request(asked["method"].upper(), url, headers, _post(asked), kind)
    when = (datetime.fromisoformat(line["startedDateTime"]) - begun).total_seconds()
    visit = int(line.get("_visit", 0))
    status = int(answer.get("status", 0))
    if status <= 0:
        return Entry(request, None, visit, when, str(answer.get("_error") or "Failed"))
    body = _content(answer.get("content", {}), beside)
    name = bodies.put(body) if body else None
    return Entry(request, Response(status, _headers(answer["headers"]), name), visit, when)


def _headers(headers: Iterable[Mapping[str, str]]) -> Headers:
    """Headers in lower case, without HTTP/2's pseudo headers; joined cookies taken apart."""
    return tuple(
        (header["name"].lower(), value)
        for header in headers
        if not header["name"].startswith(":")
        for value in header["value"].split("\n")
    )


def _post(asked: Mapping[str, Any]) -> bytes | None:
    data = asked.get("postData")
    if not data:
        return None
    if data.get("text"):
        text: str = data["text"]
        return base64.b64decode(text) if data.get("encoding") == "base64" else text.encode()
    pairs = [(one["name"], one.get("value", "")) for one in data.get("params", ())]
    return urlencode(pairs).encode() if pairs else None


def _content(content: Mapping[str, Any], beside: Path) -> bytes:
    if content.get("_file"):
        path = (beside / str(content["_file"])).resolve()
        if not path.is_relative_to(beside.resolve()):
            raise ValueError(f"body outside the folder: {content['_file']}")
        return path.read_bytes()
    text = str(content.get("text") or "")
    return base64.b64decode(text) if content.get("encoding") == "base64" else text.encode()


def _kind(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """What a request was for, where the file does not say."""
    wanted = dict(_headers(asked["headers"]))
    kind = str(answer.get("content", {}).get("mimeType", ""))
    if wanted.get("sec-fetch-dest") in ("document", "iframe"):
        return "document"
    if "sec-fetch-dest" not in wanted and kind.startswith("text/html"):
        return "document"
    for begin, name in (("text/css", "stylesheet"), ("image/", "image"), ("font/", "font")):
        if kind.startswith(begin):
            return name
    return "script" if "javascript" in kind else "fetch"


def _socket(line: Mapping[str, Any]) -> Socket:
    frames = []
    for message in line.get("_webSocketMessages", ()):
        data: str | bytes = message["data"]
        if message.get("opcode") == 2:
            data = base64.b64decode(data)
        frames.append(Frame(message["type"] == "send", data))
    visit, closed = int(line.get("_visit", 0)), bool(line.get("_closed", False))
    return Socket(line["request"]["url"], tuple(frames), closed, visit)


def _is_page(entry: Entry) -> bool:
    return entry.request.kind == "document" and entry.response is not None


# ---- writing -----------------------------------------------------------------------------------


def _entry_har(site: Site, entry: Entry, bodies: Bodies) -> dict[str, Any]:
    request, response = entry.request, entry.response
    asked = _request_har(request)
    if request.body:
        mime = request.headers.get("content-type", "")
        asked["postData"] = {"mimeType": mime, **_text(request.body, mime)}
    answer: dict[str, Any] = {"status": 0, "statusText": "", "headers": [], "_error": entry.error}
    content: dict[str, Any] = {"size": 0, "mimeType": "x-unknown"}
    if response is not None:
        body = bodies.get(response.body)
        mime = response.header("content-type") or "x-unknown"
        content = {"size": len(body), "mimeType": mime, **_text(body, mime)}
        headers = [{"name": name, "value": value} for name, value in response.headers]
        answer = {
            "status": response.status,
            "statusText": _phrase(response.status),
            "headers": headers,
        }
    answer |= {
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "content": content,
        "redirectURL": (response.redirect or "") if response else "",
        "headersSize": -1,
        "bodySize": -1,
    }
    extra = {"_resourceType": request.kind, "_visit": entry.visit}
    return _line(site, entry.time_s, asked, answer) | extra


def _socket_har(site: Site, socket: Socket) -> dict[str, Any]:
    asked = _request_har(Request("GET", socket.url))
    answer = {
        "status": 101,
        "statusText": "Switching Protocols",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [],
        "content": {"size": 0, "mimeType": "x-unknown"},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }
    messages = []
    for frame in socket.frames:
        data, binary = frame.data, isinstance(frame.data, bytes)
        if isinstance(data, bytes):
            data = base64.b64encode(data).decode()
        side = "send" if frame.sent else "receive"
        messages.append({"type": side, "time": 0, "opcode": 2 if binary else 1, "data": data})
    extra = {"_visit": socket.visit, "_closed": socket.closed, "_webSocketMessages": messages}
    return _line(site, 0.0, asked, answer) | {"_resourceType": "websocket"} | extra


def _request_har(request: Request) -> dict[str, Any]:
    query = parse_qsl(urlsplit(request.url).query, keep_blank_values=True)
    return {
        "method": request.method,
        "url": request.url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in request.headers.items()],
        "queryString": [{"name": name, "value": value} for name, value in query],
        "headersSize": -1,
        "bodySize": len(request.body or b""),
    }


def _line(
    site: Site, time_s: float, asked: Mapping[str, Any], answer: Mapping[str, Any]
) -> dict[str, Any]:
    begun = datetime.fromtimestamp(site.recorded_ms / 1000, UTC)
    when = (begun + timedelta(seconds=time_s)).isoformat(timespec="milliseconds")
    return {
        "startedDateTime": when,
        "time": 0,
        "request": asked,
        "response": answer,
        "cache": {},
        "timings": {"send": 0, "wait": 0, "receive": 0},
    }


def _text(body: bytes, mime: str) -> dict[str, str]:
    """A body as text where it is text, else in base 64."""
    if mime.startswith(_TEXT) or mime.startswith("application/x-www-form-urlencoded"):
        try:
            return {"text": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"text": base64.b64encode(body).decode(), "encoding": "base64"}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
