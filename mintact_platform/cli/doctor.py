"""`mintact doctor`: what this machine has for a run, and which package brings what is missing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from mintact_platform.registry.names import Registry

EXAMPLES = """\
  mintact doctor
  mintact doctor --json
"""
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Check(NamedTuple):
    """One thing looked for.

    Attributes:
        name: what.
        found: whether it is there.
        detail: version or path when found, else what it would be for.
        next: what to install, "" when found.
    """

    name: str
    found: bool
    detail: str
    next: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Look and tell; nothing is loaded or installed, and what is tried is over at once."""
    checks = [*_machine(), *_programs(), *_libraries(), *_plugins()]
    if arguments.json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
        return 0
    for check in checks:
        mark = "✓" if check.found else "–"
        tail = f"; {check.next}" if check.next else ""
        print(f"{mark} {check.name:14}{check.detail}{tail}")
    return 0


def _machine() -> list[Check]:
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.machine()}, {cores} cores, {_memory()}"
    return [
        Check("python", True, f"{platform.python_version()} ({sys.executable})"),
        Check("machine", True, system),
        Check("mintact", True, version("mintact-platform")),
    ]


def _programs() -> list[Check]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    return [
        Check("browser", True, browser)
        if browser
        else Check("browser", False, "web environments", "apt-get install chromium-headless-shell"),
        _containment(),
    ]


def _containment() -> Check:
    """How environments are kept together, tried as an environment server would."""
    from mintact_platform.environments.server import containment

    found = containment.isolation()
    if found != "none":
        detail = f"{found}: a worker's processes, shared memory and disk end with it, all at once"
        return Check("containment", True, detail)
    detail = "none: a worker's processes are found by ancestry and mark; disk is only measured"
    return Check("containment", False, detail, containment.INSTALL)


def _libraries() -> list[Check]:
    wanted = {
        "torch": ("training and the embedded engine", "pip install torch"),
        "transformers": ("the torch plugin's models", "pip install mintact-plugin-torch"),
        "playwright": ("web environments", "pip install playwright"),
    }
    return [_library(name, use, install) for name, (use, install) in wanted.items()]


def _library(name: str, use: str, install: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, use, install)


def _plugins() -> list[Check]:
    registry = Registry.discover()
    _ = registry.tables  # asking for the tables finds registrations that fail
    broken = [row for row in registry.rows if row.error]
    working = Check("plugins", True, f"{len(registry.rows) - len(broken)} work")
    return [working, *(Check(row.distribution, False, row.error or "") for row in broken)]


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.0f} GiB"
