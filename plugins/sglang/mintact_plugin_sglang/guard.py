"""Runs a server that knows nothing of its parent: `python -m mintact_plugin_sglang.guard`.

It starts the command of its specification, reports once an address answers, adopts whatever the
command leaves behind, and ends all of it when its own parent is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any, NoReturn

from mintact_platform import processes, trees

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.05
_PROBE_SECONDS = 5.0
_GRACE_SECONDS = 3.0


def main() -> NoReturn:
    """Guard one command: `{"command": [...], "probe": url, "ready": {...}}`."""
    signal.signal(signal.SIGTERM, _end)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    guarded = 0
    spec = processes.adopt(on_orphan=lambda: _end_gently(guarded))
    pipes = (processes.LIFELINE, processes.READY)
    environ = {name: value for name, value in os.environ.items() if name not in pipes}
    guarded = subprocess.Popen(spec["command"], stdin=subprocess.DEVNULL, env=environ).pid
    while not _answers(spec["probe"]):
        status = _ended(guarded, os.WNOHANG)
        if status is not None:
            _leave(guarded, status)
        time.sleep(_POLL_SECONDS)
    processes.ready(spec["ready"])
    while (status := _ended(guarded, 0)) is None:
        pass
    _leave(guarded, status)


def _answers(url: str) -> bool:
    # no proxy of the environment's: the server is on this host
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_PROBE_SECONDS) as reply:
            return bool(reply.status == 200)
    except (OSError, HTTPException):
        return False


def _ended(guarded: int, options: int) -> int | None:
    """Reap one child, orphans included; the exit code if it was the guarded one."""
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, options)
        return os.waitstatus_to_exitcode(status) if pid == guarded else None
    return 1


def _end_gently(guarded: int) -> None:
    """Let the server go by itself, for it removes what outlives processes; then end the rest."""
    until = time.monotonic() + _GRACE_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.kill(guarded or os.getpid(), signal.SIGTERM)
    # the main thread reaps it and ends this process
    while time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    _clear(())


def _end(*_: Any) -> NoReturn:
    _clear(())
    os._exit(0)


def _leave(guarded: int, code: int) -> NoReturn:
    """End with the guarded command's exit code; a negative one would say that we were killed."""
    _clear((guarded,))
    os._exit(code if code >= 0 else 128 - code)


def _clear(ended: Sequence[int]) -> None:
    """Kill what runs below, and remove the images in shared memory that SGLang leaves when killed.

    Their names hold the process that made them: `sgl_shm_<kind>_<process>_<number>`.
    """
    makers = [*ended, *trees.below(os.getpid())]
    trees.kill_below(os.getpid())
    for maker in makers:
        for path in glob.glob(f"/dev/shm/sgl_shm_*_{maker}_*"):
            with contextlib.suppress(OSError):
                os.unlink(path)


if __name__ == "__main__":
    main()
