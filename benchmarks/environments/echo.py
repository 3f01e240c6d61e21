"""The environment that every contestant serves: a step costs next to nothing, the way there is all.

`python` finds it by `PYTHONPATH=benchmarks/environments`, a server as `echo:Echo`. A call named
`echo` answers its number and, when asked, a screenshot of 90 KB; `hang` never returns; `crash`
ends the process.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import gymnasium
from picture import screenshot

SEATS = {"instances_per_worker": 32}


class Echo(gymnasium.Env[Any, Any]):
    """Runs on its worker's loop: its methods never wait."""

    metadata = {"mintact": {"inline": True, **SEATS}}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return {"text": "ready"}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        arguments = action["arguments"]
        if action["name"] == "hang":
            threading.Event().wait()
        if action["name"] == "crash":
            os._exit(1)
        observation: dict[str, Any] = {"text": str(arguments["number"])}
        if arguments["image"]:
            observation["screenshot"] = screenshot()
        return observation, 0.0, False, False, {}


class EchoThread(Echo):
    """Shares a worker, on a thread of its own."""

    metadata = {"mintact": {"isolation": "thread", **SEATS}}


class EchoProcess(Echo):
    """Has a worker to itself."""

    metadata = {"mintact": {"isolation": "process"}}
