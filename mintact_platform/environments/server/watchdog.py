"""Outlives a killed environment server just long enough to remove what it left.

A worker that hangs with the interpreter locked answers no signal and no lifeline, and a browser
started by a worker knows neither. This small process waits on standard input for the end of the
server, whatever kills it, then kills everything that carries the server's mark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mintact_platform import processes
from mintact_platform.environments.server.remains import remove


def start(mark: str, directory: Path) -> subprocess.Popen[bytes]:
    """Watch over this process; it ends when the returned process's standard input closes."""
    hidden = (processes.LIFELINE, processes.READY)
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-m", "mintact_platform.environments.server.watchdog"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # a mark of its own: it must not end with the server's tree
        env={**variables, processes.MARK: f"watchdog-{mark}"},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"mark": mark, "directory": str(directory)}).encode() + b"\n")
    process.stdin.flush()
    return process


def main() -> None:
    """Wait for the end of the input, then clean up."""
    spec = json.loads(sys.stdin.buffer.readline() or b"null")
    sys.stdin.buffer.read()
    if spec is None:
        return
    processes.kill_marked(spec["mark"])
    remove(Path(spec["directory"]))


if __name__ == "__main__":
    main()
