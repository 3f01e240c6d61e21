"""`mintact train`: asynchronous RL over the domains of a run file."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from mintact_platform.cli.run_files import add_run_file, run_with_display
from mintact_platform.config import RunConfig
from mintact_platform.dashboard.terminal import Display
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.run import train

EXAMPLES = """\
  mintact train docs/quickstart/rl.toml
  mintact train run.toml trainer.steps=50 domains.web.judge=acme/judge
  mintact train run.toml --resume          go on where a run stopped or was killed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add_run_file(parser)
    parser.add_argument(
        "--resume", action="store_true", help="continue an existing run; without it that is refused"
    )
    parser.add_argument(
        "--accept-changed-plugins",
        action="store_true",
        help="resume although the run was started with other versions of its plugins",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train; the ledger and the table before/after go to standard output."""
    begun: list[Path] = []

    def job(config: RunConfig, registry: Registry, display: Display) -> Coroutine[Any, Any, int]:
        begun.append(arguments.runs / config.name / "run.db")
        return train(
            config,
            runs=arguments.runs,
            resume=arguments.resume,
            registry=registry,
            display=display,
            accept_changed=arguments.accept_changed_plugins,
        )

    try:
        return run_with_display(arguments, job)
    except KeyboardInterrupt:
        if not any(path.exists() for path in begun):
            raise
        raise KeyboardInterrupt("go on with --resume") from None
