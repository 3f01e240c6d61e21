"""`mintact sft`: supervised fine-tuning on demonstrations, before RL."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine
from typing import Any

from mintact_platform.cli.run_files import add_resume, add_run_file, run_with_display
from mintact_platform.config import RunConfig
from mintact_platform.dashboard.terminal import Display
from mintact_platform.registry.names import Registry
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

    def job(config: RunConfig, registry: Registry, display: Display) -> Coroutine[Any, Any, int]:
        return supervise(
            config,
            runs=arguments.runs,
            resume=arguments.resume,
            registry=registry,
            display=display,
            accept_changed=arguments.accept_changed_plugins,
        )

    return run_with_display(arguments, job)
