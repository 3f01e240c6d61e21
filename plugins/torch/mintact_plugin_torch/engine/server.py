"""The embedded engine as a child process: `python -m mintact_plugin_torch.engine.server`.

It reads its specification from its parent, listens on a free loopback port, reports the URL, and
exits when the parent is gone.
"""

from __future__ import annotations

import gc
import logging
import socket
from typing import Any

import torch
import uvicorn

from mintact_platform import processes
from mintact_plugin_torch.engine.app import create_app
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.runner import Limits
from mintact_plugin_torch.policy import Policy


def build(spec: dict[str, Any]) -> Engine:
    """Load the model and make the engine.

    Args:
        spec: `model_path`, `version`, `dtype`, `device`, `deterministic`, `limits`.
    """
    policy = Policy.load(spec["model_path"], dtype=getattr(torch, spec["dtype"]))
    policy.model.to(spec["device"])
    return Engine(
        policy,
        model_path=spec["model_path"],
        version=str(spec["version"]),
        limits=Limits(**spec["limits"]),
        deterministic=spec["deterministic"],
    )


def main() -> None:
    """Serve until the parent is gone."""
    spec = processes.adopt()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    torch.set_num_threads(int(spec["threads"]))
    engine = build(spec)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    # the model's objects never die: the collector need not look at them again
    gc.collect()
    gc.freeze()
    app = create_app(engine, on_start=lambda: processes.ready({"url": url}))
    config = uvicorn.Config(
        app, http="h11", log_level="warning", access_log=False, timeout_keep_alive=300
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
