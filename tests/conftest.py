"""What tests want people to read, which files begin, and what all workers share.

`record_property("note", …)` is printed when all is over.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

# a commit is told the same every time, however busy the machine
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **UNTIMED)
settings.register_profile("exploring", **UNTIMED)
settings.load_profile("repeatable")
providers = sys.modules.get("hypothesis.internal.conjecture.providers")
if hasattr(providers, "_get_local_constants"):
    # it would draw literals of our modules too: of those that other tests happened to load before
    providers._get_local_constants = lambda none=providers._local_constants: none

FIRST = (
    "scheduler/test_kill.py",
    "scheduler/simulation/test_soak.py",
    "docs/test_code_blocks.py",
    "play/test_page.py",
)
"""Files that take longest: one of them begun last would leave the other worker idle."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not str(item.path).endswith(FIRST))


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed")
    notes = [value for report in reports for key, value in report.user_properties if key == "note"]
    for note in sorted(notes):
        terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """`once(name, make)`: a folder that `make(folder)` fills, for the workers of a run together."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made(name, make):
        folder, done = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                # of another worker, whose `make` failed
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made
