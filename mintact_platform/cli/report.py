"""`mintact report`: a run's report.html and curve.svg."""

from __future__ import annotations

import argparse
import json

from mintact_platform.dashboard.figures import write_curve
from mintact_platform.dashboard.history import find_run
from mintact_platform.dashboard.report import write_report

EXAMPLES = """\
  mintact report quickstart
  mintact report runs/quickstart --runs elsewhere
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run's name or directory")


def run(arguments: argparse.Namespace) -> int:
    """Write both files and print their paths."""
    path = find_run(arguments.run, arguments.runs)
    page, curve = write_report(path), write_curve(path)
    if arguments.json:
        print(json.dumps({"report": str(page), "curve": str(curve)}))
    else:
        print(page, curve, sep="\n")
    return 0
