"""`mintact train`: asynchronous RL over the domains of a run file."""

from __future__ import annotations

import argparse

from mintact_platform.cli.run_files import add_resume, add_run_file, run_resumable
from mintact_platform.scheduler.run import train

EXAMPLES = """\
  mintact train docs/quickstart/rl.toml
  mintact train run.toml trainer.steps=50 domains.web.judge=acme/judge
  mintact train run.toml --resume          go on where a run stopped or was killed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add_run_file(parser)
    add_resume(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train; the ledger and the table before/after go to standard output."""
    return run_resumable(arguments, train)
