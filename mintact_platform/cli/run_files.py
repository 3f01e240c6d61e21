"""What `train`, `sft` and `eval` share: a run file with overrides, a registry, a display."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mintact_platform.cli.tables import print_renderable
from mintact_platform.config import RunConfig, load
from mintact_platform.dashboard.figures import write_curve
from mintact_platform.dashboard.history import History
from mintact_platform.dashboard.report import write_report
from mintact_platform.dashboard.table import before_after, rich_table
from mintact_platform.dashboard.terminal import Display, open_display
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.observe import configure
from mintact_platform.storage.ledger import ledger


def add_run_file(parser: argparse.ArgumentParser) -> None:
    """`RUN.toml [key=value …]`."""
    parser.add_argument("run_file", type=Path, metavar="RUN.toml", help="the run file")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="overrides, read as TOML, else as a string: trainer.lr=1e-5",
    )


def add_resume(parser: argparse.ArgumentParser) -> None:
    """`--resume` and `--accept-changed-plugins`."""
    parser.add_argument(
        "--resume", action="store_true", help="continue an existing run; without it that is refused"
    )
    parser.add_argument(
        "--accept-changed-plugins",
        action="store_true",
        help="resume although the run was started with other versions of its plugins",
    )


def run_with_display(
    arguments: argparse.Namespace,
    job: Callable[[RunConfig, Registry, Display], Coroutine[Any, Any, int]],
) -> int:
    """Read the run file, discover plugins, run `job` on one loop, then print how the run ended.

    Ledger, table, and the paths of report and curve go to standard output. Whoever interrupts a
    verb that has `--resume` is told of it.
    """
    config = load(arguments.run_file, arguments.overrides)
    registry = Registry.discover()
    display = open_display(quiet=arguments.quiet)
    try:
        for line in configure(registry, config):
            display.message(line)
        # what a plugin prints in this process is no result of the run
        with contextlib.redirect_stdout(sys.stderr):
            code = asyncio.run(job(config, registry, display))
    except KeyboardInterrupt:
        if "resume" not in arguments or not (arguments.runs / config.name / "run.db").exists():
            raise
        raise KeyboardInterrupt("go on with --resume") from None
    finally:
        display.close()
    _closing(arguments.runs / config.name, as_json=arguments.json)
    return code


def run_resumable(
    arguments: argparse.Namespace, verb: Callable[..., Coroutine[Any, Any, int]]
) -> int:
    """`run_with_display` for a verb that has what `add_resume` declares."""

    def job(config: RunConfig, registry: Registry, display: Display) -> Coroutine[Any, Any, int]:
        return verb(
            config,
            runs=arguments.runs,
            resume=arguments.resume,
            registry=registry,
            display=display,
            accept_changed=arguments.accept_changed_plugins,
        )

    return run_with_display(arguments, job)


def _closing(path: Path, *, as_json: bool) -> None:
    """What is left of a run: the ledger, success before and after, a page and a plot."""
    page, curve = write_report(path), write_curve(path)
    with History(path) as history:
        rows, table = ledger(history.database), before_after(history)
    if as_json:
        success = {row.domain: [row.first, row.last] for row in table if row.ran}
        counts = {domain: asdict(row) for domain, row in rows.items()}
        paths = {"report": str(page), "curve": str(curve)}
        print(json.dumps({**paths, "success": success, "ledger": counts}))
        return
    for domain, row in rows.items():
        print(f"{domain}: {row}")
    if table:
        print()
        print_renderable(rich_table(table))
        print()
    print(f"report: {page}\nplot:   {curve}")
