"""`mintact check`: the proof that no group of a run was lost or trained twice."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from mintact_platform.dashboard.history import find_run
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import check, ledger
from mintact_platform.storage.retention import prune

EXAMPLES = """\
  mintact check quickstart
  mintact check runs/quickstart --json
  mintact check quickstart --prune     and remove screenshots that no trajectory shows
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run's name or directory")
    parser.add_argument(
        "--prune", action="store_true", help="remove files that nothing in the run refers to"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a ledger line a domain; exit code 1 when something is wrong."""
    directory = RunDirectory.open(find_run(arguments.run, arguments.runs))
    try:
        rows = ledger(directory.database)
        problems = check(directory.database, directory.path)
        pruned = _prune(directory) if arguments.prune and not problems else ""
    finally:
        directory.close()
    if arguments.json:
        values = {domain: asdict(row) for domain, row in rows.items()}
        print(json.dumps({"ledger": values, "problems": problems, "pruned": pruned}, indent=2))
    else:
        for domain, row in rows.items():
            print(f"{domain}: {row}")
        if pruned:
            print(pruned)
        for problem in problems:
            print(f"mintact: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _prune(directory: RunDirectory) -> str:
    found = prune(directory)
    return (
        f"removed {len(found.images)} images, {len(found.trajectories)} trajectories and "
        f"{len(found.unfinished)} unfinished files that nothing refers to "
        f"({found.bytes / 1e6:.1f} MB)"
    )
