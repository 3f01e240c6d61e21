"""`mintact new`: a working plugin distribution, with a test and a run that uses it."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from mintact_platform.scaffold.naming import NAMESPACE, Names, read_name
from mintact_platform.scaffold.writing import KINDS, Written, write

EXAMPLES = f"""\
  mintact new environment acme/maze            acme-maze/: a world to act in, with its tasks
  mintact new judge acme/brief --to plugins    plugins/acme-brief/: who says how it went
  mintact new objective cispo                  {NAMESPACE}-cispo/: a loss

NAME is namespace/name, as run files will say it; without a namespace it is {NAMESPACE}'s.
Each has a test by the conformance kit, a README, and a run.toml that trains with it on a CPU.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="namespace/name, such as acme/maze")
    parser.add_argument(
        "--to", type=Path, default=Path(), metavar="DIR", help="write its directory below DIR (.)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write it, and say what to do next."""
    names = read_name(arguments.name)
    written = write(arguments.kind, names, arguments.to)
    if arguments.json:
        values = {
            "directory": str(written.directory),
            "distribution": names.distribution,
            "registered": names.registered,
            "files": [str(path) for path in written.files],
        }
        print(json.dumps(values))
        return 0
    print(written.directory)
    if not arguments.quiet:
        print("\n".join(_next(arguments.kind, names, written)))
    return 0


def _next(kind: str, names: Names, written: Written) -> list[str]:
    folder = shlex.quote(str(written.directory))
    code = next(str(path) for path in written.files if path.name in _CODE)
    return [
        *(f"  {path}" for path in written.files),
        "",
        "next:",
        f"  cd {folder}",
        "  python -m pip install -e .",
        "  python -m pytest                 # the conformance kit",
        f"  mintact plugins                  # lists {kind} {names.registered}",
        f"then change {code}; README.md says how to train with it",
    ]


_CODE = ("environment.py", "judge.py", "loss.py")
