"""A session behind a page on loopback, until it is interrupted."""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from mintact_platform.play.app import create_app
from mintact_platform.play.session import PlaySession
from mintact_platform.play.settings import PlaySettings
from mintact_platform.play.tasks import Tasks
from mintact_platform.processes import finish
from mintact_platform.registry.names import Registry
from mintact_platform.storage.images import ImageStore

HOST = "127.0.0.1"
_UVICORN: dict[str, Any] = {
    "timeout_keep_alive": 60,
    "timeout_graceful_shutdown": 2,
    "access_log": False,
    "log_level": "error",
    "server_header": False,
}


async def play(
    settings: PlaySettings,
    tasks: Tasks,
    registry: Registry,
    *,
    port: int = 0,
    ready: Callable[[str], None],
) -> None:
    """Serve the page until a signal; then give the lease back and stop what was started.

    Args:
        settings: how to play.
        tasks: what to play.
        registry: installed plugins.
        port: of the page; 0 takes a free one.
        ready: called with the page's address once it answers.

    Raises:
        OSError: the port is taken.
    """
    token = secrets.token_urlsafe(24)
    with (
        tempfile.TemporaryDirectory(prefix="mintact-play-") as folder,
        socket.create_server((HOST, port), backlog=64) as listener,
    ):
        session = PlaySession(settings, tasks, registry, images=ImageStore(Path(folder)))
        port = listener.getsockname()[1]
        app = create_app(session, token=token)
        server = _Server(uvicorn.Config(app, **_UVICORN), session)
        server.on_ready = lambda: ready(f"http://{HOST}:{port}/{token}/")
        session.start()
        try:
            await server.serve(sockets=[listener])
        finally:
            await finish(session.close())


class _Server(uvicorn.Server):
    """A uvicorn server that says when it answers, and lets go of pages that wait for news."""

    on_ready: Callable[[], None]

    def __init__(self, config: uvicorn.Config, session: PlaySession) -> None:
        super().__init__(config)
        self._session = session

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._session.wake()
        await super().shutdown(sockets)
