"""The same echo environment in `openenv-core`'s terms, and its own client to drive it.

`openenv_echo.py serve` prints its URL, `serve-plain` is the same without the compression that
uvicorn switches on by itself; `openenv_echo.py drive URL PID` answers cells. Runs in the virtual
environment of `openenv_install.py`.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import socket
import sys
from typing import Any

import driving
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient
from picture import screenshot

SESSIONS = 1024


class EchoAction(Action):
    number: int
    image: bool = False


class EchoObservation(Observation):
    text: str
    screenshot: str | None = None


class Echo(Environment[EchoAction, EchoObservation, State]):
    """Inside the server's process, and awaited on its loop: the quickest way OpenEnv offers."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: Any = None, episode_id: Any = None, **extra: Any) -> EchoObservation:
        return EchoObservation(text="ready")

    def step(self, action: EchoAction, timeout_s: Any = None, **extra: Any) -> EchoObservation:
        picture = base64.b64encode(screenshot()).decode() if action.image else None
        return EchoObservation(text=str(action.number), screenshot=picture, reward=0.0)

    async def step_async(
        self, action: EchoAction, timeout_s: Any = None, **extra: Any
    ) -> EchoObservation:
        return self.step(action)

    @property
    def state(self) -> State:
        return State()


def serve(compress: bool) -> None:
    app = create_app(Echo, EchoAction, EchoObservation, max_concurrent_envs=SESSIONS)
    listener = socket.create_server(("127.0.0.1", 0), backlog=SESSIONS)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws_per_message_deflate=compress
    )
    uvicorn.Server(config).run(sockets=[listener])


async def open_session(url: str) -> driving.Step:
    client = GenericEnvClient(base_url=url)
    await client.connect()
    await client.reset()

    async def step(number: int, image: bool) -> None:
        result = await client.step({"number": number, "image": image})
        assert result.observation["text"] == str(number)
        assert not image or len(base64.b64decode(result.observation["screenshot"])) > 80_000

    return step


if __name__ == "__main__":
    driving.end_with_parent()
    if sys.argv[1].startswith("serve"):
        serve(compress=sys.argv[1] == "serve")
    else:
        url, server = sys.argv[2:]
        asyncio.run(driving.serve(functools.partial(open_session, url), int(server)))
