"""Environments in `openenv-core`'s own terms; runs where that is installed and prints its URL.

`real_server.py count` counts to three, `real_server.py tools` offers the same as tools of the
Model Context Protocol.
"""

import base64
import io
import socket
import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State
from PIL import Image
from pydantic import Field

SESSIONS = 4


class Count(Action):
    """Add a number."""

    amount: int = Field(ge=1, le=3, description="What to add.")
    fail: bool = False


class Counted(Observation):
    text: str
    screenshot: str | None = None


class Counter(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.count, self.goal, self.episode = 0, 3, None

    def reset(self, seed=None, episode_id=None, goal=3, **extra):
        self.count, self.goal, self.episode = 0, goal, episode_id
        return Counted(text=f"seed {seed}, count to {goal}", screenshot=self._picture())

    def step(self, action, timeout_s=None, **extra):
        if action.fail:
            raise RuntimeError("the widget fell off")
        self.count += action.amount
        done = self.count >= self.goal
        exact = float(self.count == self.goal)
        return Counted(text=f"count {self.count}", reward=exact if done else 0.0, done=done)

    @property
    def state(self):
        return State(episode_id=self.episode, step_count=self.count)

    def _picture(self):
        buffer = io.BytesIO()
        Image.new("RGB", (16, 12), (10, 20, 30)).save(buffer, "PNG")
        return base64.b64encode(buffer.getvalue()).decode()


class Tools(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        from fastmcp import FastMCP

        mcp, self.count = FastMCP("counter"), 0

        @mcp.tool
        def add(amount: int) -> str:
            """Add a number."""
            self.count += amount
            return f"count {self.count}"

        super().__init__(mcp)

    def reset(self, seed=None, episode_id=None, **extra):
        self.count = 0
        return Observation()

    def _step_impl(self, action, timeout_s=None, **extra):
        raise ValueError("tools only")

    @property
    def state(self):
        return State(step_count=self.count)


def main(role):
    if role == "count":
        app = create_app(Counter, Count, Counted, max_concurrent_envs=SESSIONS)
    else:
        app = create_app(Tools, CallToolAction, CallToolObservation, max_concurrent_envs=SESSIONS)
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
