"""`mintact doctor`: what this machine has for a run, and which command brings what is missing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import mintact_platform
from mintact_platform.cli.parts import APART, LIBRARIES, PARTS, PROGRAMS, Part, Program
from mintact_platform.cli.tables import print_table
from mintact_platform.registry import metadata
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry

EXAMPLES = """\
  mintact doctor
  mintact doctor --missing             only what is not there, with the command that brings it
  mintact doctor --json | jq -r '.[] | select(.found | not) | .next'
"""
_CHECKOUT = Path(mintact_platform.__file__).parents[1]


class Check(NamedTuple):
    """One thing looked for.

    Attributes:
        group: `machine`, `programs`, `distributions`, `libraries` or `plugins`.
        name: what.
        found: whether it is there, with all it needs.
        detail: version or path when found, else what it would be for.
        next: what to do about it, "" when found.
    """

    group: str
    name: str
    found: bool
    detail: str
    next: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("--missing", action="store_true", help="only what is not there")


def run(arguments: argparse.Namespace) -> int:
    """Look and tell; nothing heavy is imported, nothing installed."""
    registry = Registry.discover()
    everything = [
        *_machine(),
        *_programs(),
        *_distributions(registry),
        *_libraries(),
        *_plugins(registry),
    ]
    checks = [check for check in everything if not (arguments.missing and check.found)]
    if arguments.json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
        return 0
    for group, members in groupby(checks, key=lambda check: check.group):
        rows = [(f"{'✓' if c.found else '–'} {c.name}", c.detail, c.next) for c in members]
        last = "to get it" if any(row[2] for row in rows) else ""
        print_table((group, "", last), rows, whole=(group,))
        print()
    return 0


def _machine() -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.machine()}, {cores} cores, {_memory()}"
    yield Check("machine", "python", True, f"{platform.python_version()} ({sys.executable})")
    yield Check("machine", "system", True, system)
    yield Check("machine", "mintact", True, mintact_platform.__version__)


def _programs() -> Iterator[Check]:
    for name, program in PROGRAMS.items():
        path = _find(program)
        if path:
            yield Check("programs", name, True, path)
        else:
            yield Check("programs", name, False, program.enables, program.install)
    yield _containment()


def _find(program: Program) -> str | None:
    chosen = os.environ.get(program.variable) if program.variable else None
    if chosen:
        return chosen if os.access(chosen, os.X_OK) else None
    return next(filter(None, map(shutil.which, program.names)), None)


def _containment() -> Check:
    """How environments are kept together, tried as an environment server would."""
    from mintact_platform.environments.server import containment

    found = containment.isolation()
    if found != "none":
        detail = f"{found}: a worker's processes, shared memory and disk end with it, all at once"
        return Check("programs", "containment", True, detail)
    detail = "none: a worker's processes are found by ancestry and mark; disk is only measured"
    return Check("programs", "containment", False, detail, containment.INSTALL)


def _distributions(registry: Registry) -> Iterator[Check]:
    rows = {row.distribution: row for row in (*registry.rows, *registry.left_out)}
    for part in PARTS:
        row = rows.get(part.distribution)
        version = row.version if row else metadata.version(part.distribution)
        if version is None:
            install = f"pip install {_source(part)}"
            yield Check("distributions", part.distribution, False, part.enables, install)
        else:
            yield _installed(part, row, version)


def _installed(part: Part, row: PluginRow | None, version: str) -> Check:
    """A distribution that is there; it may still lack something, or be broken."""
    name = part.distribution
    if row is not None and (row.error or row.state != "loaded"):
        detail, follow = row.error or row.state, f"mintact plugins {name} --verbose"
        return Check("distributions", name, False, f"{version}: {detail}", follow)
    libraries = [need for need in part.libraries if metadata.version(need) is None]
    programs = [PROGRAMS[need] for need in part.programs if _find(PROGRAMS[need]) is None]
    if not libraries and not programs:
        return Check("distributions", name, True, f"{version}: {part.enables}")
    commands = [program.install for program in programs]
    if libraries:
        commands.insert(0, f"pip install {' '.join(libraries)}")
    lacking = ", ".join([*libraries, *(program.names[0] for program in programs)])
    return Check(
        "distributions", name, False, f"{version} is installed, without {lacking}: {part.enables}",
        " && ".join(commands),
    )  # fmt: skip


def _source(part: Part) -> str:
    """What pip is given: the folder where this is a checkout, else the name."""
    folder = _CHECKOUT / part.folder
    return f"-e {folder}" if (folder / "pyproject.toml").is_file() else part.distribution


def _libraries() -> Iterator[Check]:
    for name, use in LIBRARIES.items():
        version = metadata.version(name)
        if version is None:
            yield Check("libraries", name, False, use, APART.get(name, f"pip install {name}"))
        else:
            yield Check("libraries", name, True, f"{version}: {use}")


def _plugins(registry: Registry) -> Iterator[Check]:
    """Everything else that is installed, in one line, and what of it is broken."""
    ours = {"mintact-platform", *(part.distribution for part in PARTS)}
    others = [row for row in registry.rows if row.distribution not in ours]
    broken = [row for row in others if row.error]
    yield Check("plugins", "others", True, f"{len(others) - len(broken)} work")
    for row in broken:
        follow = f"mintact plugins {row.distribution} --verbose"
        yield Check("plugins", row.distribution, False, row.error or "", follow)
    for row in registry.left_out:
        if row.distribution not in ours:
            variable = row.state.rpartition(" ")[2]
            yield Check("plugins", row.distribution, False, row.state, f"change {variable}")


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.0f} GiB"
