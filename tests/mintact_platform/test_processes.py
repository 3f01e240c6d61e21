"""A child that cannot be started leaves nothing behind, and nothing outlives its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from mintact_platform import processes, trees
from mintact_platform.errors import MintactError


def descriptors():
    """What is open, each with what it is: others may close theirs meanwhile."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


async def test_a_command_that_does_not_exist_leaks_nothing(tmp_path):
    options = {"log": tmp_path / "log", "mark": f"absent-{os.getpid()}", "deadline": 10}
    with pytest.raises(FileNotFoundError):
        await processes.spawn(["/no/such/program"], {}, **options)
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await processes.spawn(["/no/such/program"], {}, **options)
    assert descriptors() <= before


async def test_a_child_that_never_reads_its_specification_is_ended_at_its_deadline(tmp_path):
    command, mark = [sys.executable, "-c", "import time; time.sleep(1000)"], f"deaf-{os.getpid()}"
    with pytest.raises(MintactError, match="not ready in time"):
        await processes.spawn(
            command, {"x": "y" * 2**20}, log=tmp_path / "log", mark=mark, deadline=2
        )
    assert processes.marked(mark) == []


def test_who_is_killed_and_takes_long_to_die_is_waited_for(monkeypatch):
    mark, asked, send = f"slow-death-{os.getpid()}", Counter(), trees._signal

    def late(pid, number):
        asked[pid, number] += 1
        if number != signal.SIGKILL or asked[pid, number] > 40:
            send(pid, number)

    monkeypatch.setattr(trees, "_signal", late)
    monkeypatch.setattr(trees, "_DEADLINE", 60.0)
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with subprocess.Popen(command, env={**os.environ, trees.MARK: mark}) as process:
        try:
            while trees.marked(mark) != [process.pid]:
                time.sleep(0.01)  # its variables can be read a little after it was started
            trees.kill_marked(mark)
            assert trees.marked(mark) == []
        finally:
            process.kill()
