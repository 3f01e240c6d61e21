"""What `train`, `sft` and `eval` share: a run file with overrides, a registry, a display."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from mintact_platform.config import RunConfig, load
from mintact_platform.dashboard.terminal import Display, open_display
from mintact_platform.errors import PluginError
from mintact_platform.registry.names import Registry


def add_run_file(parser: argparse.ArgumentParser) -> None:
    """`RUN.toml [key=value …]`."""
    parser.add_argument("run_file", type=Path, metavar="RUN.toml", help="the run file")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="overrides, read as TOML, else as a string: trainer.lr=1e-5",
    )


def run_with_display(
    arguments: argparse.Namespace,
    job: Callable[[RunConfig, Registry, Display], Coroutine[Any, Any, int]],
) -> int:
    """Read the run file, discover plugins, run `job` on one loop and close the display after it."""
    config = load(arguments.run_file, arguments.overrides)
    registry = Registry.discover()
    _announce(config, registry)
    display = open_display(quiet=arguments.quiet)
    try:
        return asyncio.run(job(config, registry, display))
    finally:
        display.close()


def _announce(config: RunConfig, registry: Registry) -> None:
    """Tell the plugins, also those registered later, which run this is."""
    try:
        registry.manager.hook.configure.call_historic(kwargs={"config": config})
    except Exception as error:
        raise PluginError(
            f"a plugin's configure hook failed ({type(error).__name__}: {error})",
            next="leave plugins out with MINTACT_DISABLE_PLUGINS to find it",
        ) from error
