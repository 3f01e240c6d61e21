"""A page that takes too much memory loses its process: its episode fails, the browser goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from mintact_env_web.browser.processes import browser_processes, command_line

PAGE_MB = 1536
"""Resident memory of one page's process. JavaScript alone is bounded by the browser itself."""
EVERY_S = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


async def watch(mark: str) -> None:
    """End page processes of this browser that grow too large, until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        await asyncio.to_thread(end_large, mark, PAGE_MB << 20)


def end_large(mark: str, limit: int) -> list[int]:
    """Kill page processes above a limit in bytes; their ids."""
    ended = []
    for pid in browser_processes(mark):
        try:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            if b"--type=renderer" in command_line(pid) and resident > limit:
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
        except (OSError, ValueError, IndexError):
            continue
    return ended
