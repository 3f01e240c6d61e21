"""Folders of dummy distributions, and fresh interpreters that find them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

MODULE = '''\
"""A dummy plugin of the usual size."""

from mintact_platform import hookimpl


@hookimpl
def register_environments():
    return {{"dummy/{n}": "dummy_{n}.env:Env", "dummy/{n}-hard": "dummy_{n}.env:Hard"}}


@hookimpl
def register_task_sets():
    return {{"dummy/{n}": "dummy_{n}.tasks:tasks"}}


@hookimpl
def register_judges():
    return {{"dummy/{n}": "dummy_{n}.judge:judge"}}
'''
METADATA = """\
Metadata-Version: 2.4
Name: dummy-{n}
Version: 1.{n}
Summary: A dummy plugin.
Requires-Python: >=3.11
Requires-Dist: mintact-platform<0.2,>=0.1
Requires-Dist: gymnasium<2,>=1.0
Requires-Dist: numpy>=1.26
Description-Content-Type: text/markdown

"""
README = "A line of a README as long as lines of a README usually are, so that reading it counts.\n"

OURS = """
from mintact_platform.registry.names import Registry
start = clock()
registry = Registry.discover()
names = len(registry.names("judges"))
seconds = clock() - start
assert not [row for row in registry.rows if row.error]
"""
FLOOR = """
from importlib.metadata import entry_points
import pluggy, mintact_platform.hookspecs
start = clock()
for point in entry_points(group="mintact"):
    point.load()
seconds = clock() - start
"""
PROGRAM = """
import json, time
def clock():
    return complex(time.perf_counter(), time.process_time())  # both clocks, subtracted as one
{code}
print(json.dumps([seconds.real, seconds.imag]))
"""
LISTING = """
import contextlib, io, json, sys
from mintact_platform.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as text:
    main(["plugins", "--quiet"])
print(json.dumps({"modules": sorted(sys.modules), "lines": text.getvalue().count("\\n")}))
"""


def write(folder: Path, count: int) -> Path:
    """A folder of so many distributions."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        package = folder / f"dummy_{n}"
        package.mkdir()
        (package / "__init__.py").write_text(MODULE.format(n=n))
        info = folder / f"dummy_{n}-1.{n}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA.format(n=n) + 120 * README)
        (info / "entry_points.txt").write_text(f"[mintact]\ndummy = dummy_{n}\n")
    return folder


class Seconds(NamedTuple):
    """What the measured part of a program took: on the wall, and of a core."""

    wall: float
    cpu: float


def seconds(site: Path, code: str) -> Seconds:
    """Run a program in a fresh interpreter."""
    return Seconds(*json.loads(_answer(site, PROGRAM.format(code=code))))


def listing(site: Path) -> dict[str, Any]:
    """The modules that `mintact plugins` loads, the lines it prints, and its wall time."""
    start = time.perf_counter()
    found: dict[str, Any] = json.loads(_answer(site, LISTING))
    return {**found, "seconds": time.perf_counter() - start}


def _answer(site: Path, code: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, cwd=site
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout
