"""`mintact eval`: held-out success per domain, with intervals."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine
from typing import Any

from mintact_platform.cli.run_files import add_run_file, run_with_display
from mintact_platform.config import RunConfig
from mintact_platform.dashboard.terminal import Display
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.evaluate import evaluate

EXAMPLES = """\
  mintact eval run.toml evaluation.episodes=100
  mintact eval run.toml model.path=runs/quickstart/weights/20 evaluation.temperature=0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add_run_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate; the table goes to standard output."""

    def job(config: RunConfig, registry: Registry, display: Display) -> Coroutine[Any, Any, int]:
        return evaluate(config, runs=arguments.runs, registry=registry, display=display)

    return run_with_display(arguments, job)
