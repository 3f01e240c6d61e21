"""`mintact rollout`: collect trajectories with any engine, a teacher's among them."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine
from typing import Any

from mintact_platform.cli.choices import whole
from mintact_platform.cli.run_files import add_run_file, run_with_display
from mintact_platform.config import RunConfig
from mintact_platform.dashboard.terminal import Display
from mintact_platform.records.task import SPLITS
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.collect import collect

MOST = 10**7
EXAMPLES = """\
  mintact rollout teacher.toml --count 200
  mintact rollout teacher.toml --count 50 --split validation rollout.temperature=0.7
  mintact rollout teacher.toml --count 500 --resume      what is still missing
  mintact show teacher                     read what was collected
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add_run_file(parser)
    parser.add_argument(
        "--count",
        type=whole("--count", 1, MOST),
        required=True,
        metavar="N",
        help="rollouts of each domain",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a collection that was cut short"
    )
    parser.add_argument(
        "--split", choices=SPLITS, help="take the tasks from here, not from the domain's own split"
    )


def run(arguments: argparse.Namespace) -> int:
    """Collect; how many succeeded goes to standard output."""

    def job(config: RunConfig, registry: Registry, display: Display) -> Coroutine[Any, Any, int]:
        return collect(
            config,
            count=arguments.count,
            split=arguments.split,
            runs=arguments.runs,
            resume=arguments.resume,
            registry=registry,
            display=display,
        )

    return run_with_display(arguments, job)
