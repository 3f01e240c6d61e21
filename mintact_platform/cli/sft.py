"""`mintact sft`: supervised fine-tuning on demonstrations, before RL."""

from __future__ import annotations

import argparse

from mintact_platform.cli.run_files import add_resume, add_run_file, run_resumable
from mintact_platform.scheduler.supervise import supervise

EXAMPLES = """\
  mintact sft docs/quickstart/sft.toml
  mintact sft run.toml sft.steps=100 sft.lr=1e-3
  mintact sft run.toml --resume            go on where a stage stopped or was killed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add_run_file(parser)
    add_resume(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fine-tune; the weights lie in the run directory afterwards."""
    return run_resumable(arguments, supervise)
