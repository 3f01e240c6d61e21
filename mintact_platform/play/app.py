"""The page and its calls over HTTP, for one person on this machine and for nobody else.

Every address holds an unguessable token. `Host` must be a name of this machine's loopback, so that
no foreign name can be made to point here (its port may be another one: a forwarded one); `Origin`,
where a browser sends it, must be the page's own; calls that change something take JSON only, which
no foreign page can send unasked.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response

from mintact_platform.actions.space import ParseError
from mintact_platform.dashboard.samples import words
from mintact_platform.errors import MintactError, StorageError
from mintact_platform.play.session import PlaySession
from mintact_platform.play.settings import NotNow
from mintact_platform.play.view import view

_MEDIA = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
PAGE = ("page.html", "page.css", "page.js", "stage.js", "forms.js", "parts.js")
"""Files of the page; the first is the page itself."""
NAMES = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 1 << 20
POLL = 25.0
"""Seconds a question for news is held open."""
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def create_app(session: PlaySession, *, token: str) -> FastAPI:
    """The routes over a session, which the caller starts and closes.

    Args:
        session: the person's.
        token: first part of every path.
    """
    app = FastAPI(title="mintact play", openapi_url=None)
    app.add_middleware(_Border, token=token)
    app.add_exception_handler(MintactError, _refused)
    app.add_exception_handler(OSError, _refused)
    _add_page(app, session)
    _add_calls(app, session)
    return app


def _add_page(app: FastAPI, session: PlaySession) -> None:
    for file in PAGE:
        path = "/" if file == PAGE[0] else f"/{file}"
        app.add_api_route(path, _static(file), methods=["GET"])

    @app.get("/state")
    async def state(after: int = -1) -> Response:
        """What there is to show, once it is newer than a revision."""
        await session.changed(after, POLL)
        return _json(view(session))

    @app.get("/images/{digest}")
    async def image(digest: str) -> Response:
        """A screenshot, byte for byte as the environment sent it."""
        for one in session.round.images:
            if one.digest == digest:
                kind = "image/jpeg" if one.path.suffix == ".jpg" else "image/png"
                return Response(one.path.read_bytes(), media_type=kind)
        raise StorageError(f"no image {digest!r} in this episode")


def _add_calls(app: FastAPI, session: PlaySession) -> None:
    def call(path: str, do: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> None:
        async def route(request: Request) -> Response:
            return _json(await do(await _body(request)))

        app.add_api_route(path, route, methods=["POST"])

    async def compose(body: Mapping[str, Any]) -> Any:
        return {"response": _composed(session, body)}

    async def act(body: Mapping[str, Any]) -> Any:
        written = body.get("response")
        session.respond(written if isinstance(written, str) else _composed(session, body))
        return {}

    async def read(body: Mapping[str, Any]) -> Any:
        found = session.read(str(body.get("response", "")))
        if isinstance(found, ParseError):
            return {"error": found.message}
        return {"calls": [words(one.to_json()) for one in found]}

    async def begin(body: Mapping[str, Any]) -> Any:
        await session.begin(again=bool(body.get("again")))
        return {}

    async def give_up(body: Mapping[str, Any]) -> Any:
        session.give_up()
        return {}

    async def judge(body: Mapping[str, Any]) -> Any:
        session.judge_again()
        return {}

    async def save(body: Mapping[str, Any]) -> Any:
        return {"saved": str(await session.save())}

    for path, do in (("/compose", compose), ("/act", act), ("/read", read), ("/begin", begin),
                     ("/give-up", give_up), ("/judge", judge), ("/save", save)):  # fmt: skip
        call(path, do)


def _composed(session: PlaySession, body: Mapping[str, Any]) -> str:
    arguments = body.get("arguments")
    return session.compose(
        str(body.get("thought", "")),
        str(body.get("name", "")),
        arguments if isinstance(arguments, dict) else {},
    )


def _static(file: str) -> Callable[[], Awaitable[Response]]:
    media = _MEDIA[file.rpartition(".")[2]]

    async def serve() -> Response:
        data = files("mintact_platform.play").joinpath(file).read_bytes()
        return Response(data, media_type=media)

    return serve


class _Border:
    """Lets in nobody but the page; adds the headers that keep it to itself."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._prefix = app, f"/{token}/".encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
            await send(message)

        headers = {k: v.decode("latin-1") for k, v in scope["headers"]}
        refusal = self._refusal(scope["method"], scope["path"].encode(), headers)
        if refusal:
            await _error(403, "forbidden", refusal)(scope, receive, send_with_headers)
            return
        path = scope["path"][len(self._prefix) - 1 :]
        inner = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(inner, receive, send_with_headers)

    def _refusal(self, method: str, path: bytes, headers: Mapping[bytes, str]) -> str:
        host = headers.get(b"host", "")
        if re.sub(r":\d+$", "", host) not in NAMES:
            return "this page is served on loopback only"
        if not hmac.compare_digest(path[: len(self._prefix)], self._prefix):
            return "the address holds no valid token; open the one that `mintact play` printed"
        # a link on another page may open this one, which shows nothing to it
        opened = method == "GET" and headers.get(b"sec-fetch-mode") == "navigate"
        foreign = headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin")
        if headers.get(b"origin", f"http://{host}") != f"http://{host}" or (foreign and not opened):
            return "another page may not drive this one"
        if method == "POST" and headers.get(b"content-type") != "application/json":
            return "calls are JSON"
        return ""


async def _body(request: Request) -> Mapping[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise NotNow(f"a call has at most {MAX_BODY} bytes")
    try:
        values = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise NotNow(f"not JSON: {error}") from None
    return values if isinstance(values, dict) else {}


def _json(values: Any, status: int = 200) -> Response:
    body = json.dumps(values, ensure_ascii=False).encode(errors="replace")
    return Response(body, status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, NotNow) else 404 if isinstance(error, StorageError) else 500
    return _error(status, type(error).__name__, str(error))


def _error(status: int, kind: str, message: str) -> Response:
    body = {"kind": kind, "phase": "play", "message": message, "retryable": False, "log_tail": ""}
    return _json({"error": body}, status)
