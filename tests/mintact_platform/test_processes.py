"""A child that cannot be started leaves no file descriptor behind."""

from __future__ import annotations

import os
import sys

import pytest

from mintact_platform import processes
from mintact_platform.errors import MintactError


def descriptors():
    return len(os.listdir("/proc/self/fd"))


async def test_a_command_that_does_not_exist_leaks_nothing(tmp_path):
    options = {"log": tmp_path / "log", "mark": "absent-child", "deadline": 10}
    with pytest.raises(FileNotFoundError):
        await processes.spawn(["/no/such/program"], {}, **options)
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await processes.spawn(["/no/such/program"], {}, **options)
    assert descriptors() == before


async def test_a_child_that_never_reads_its_specification_is_ended_at_its_deadline(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with pytest.raises(MintactError, match="not ready in time"):
        await processes.spawn(
            command, {"x": "y" * 2**20}, log=tmp_path / "log", mark="deaf-child", deadline=2
        )
    assert processes.marked("deaf-child") == []
