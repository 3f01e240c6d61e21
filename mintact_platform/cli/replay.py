"""`mintact replay`: what another loss would have wanted of a run's recorded batches."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mintact_platform import config as configuration
from mintact_platform.cli.tables import print_table
from mintact_platform.config import ObjectiveSection, RunConfig
from mintact_platform.dashboard.comparison import HEADERS, OFF_POLICY, summary, write_comparison
from mintact_platform.dashboard.history import find_run
from mintact_platform.dashboard.terminal import Display, Snapshot, open_display
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.replay import (
    Recorded,
    Replay,
    chosen_steps,
    other_section,
    recorded_steps,
)
from mintact_platform.scheduler.used import changed
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.files import write_aside
from mintact_platform.training.objective import compose

EXAMPLES = """\
  mintact replay quickstart --objective cispo
  mintact replay quickstart --preset gspo --from-step 40 --steps 20
  mintact replay quickstart --objective acme/cispo params.clip_high=4 correction=none
  mintact replay quickstart --preset dapo --follow own     also trains a copy with it
  mintact replay quickstart                                its own loss: does it repeat?
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add = parser.add_argument
    add("run", metavar="RUN", help="a run's name or directory; nothing of it is changed")
    add("overrides", nargs="*", metavar="key=value", help="keys of [objective]: prox=current")
    add("--objective", metavar="NAME", help="another objective in the run's own loss")
    add("--preset", metavar="NAME", help="another loss as a whole")
    add("--from-step", type=int, default=1, metavar="N", help="first step to compare (1)")
    add("--steps", type=int, metavar="N", help="how many (all that are recorded)")
    add(
        "--follow",
        choices=("recorded", "own"),
        default="recorded",
        help="compare at the recorded run's weights; own: also train a second copy, off-policy",
    )
    add("--to", type=Path, metavar="DIR", help="where to write (RUN/replays/NAME-TIME)")


def run(arguments: argparse.Namespace) -> int:
    """Replay, write lines and a page, print the means; 1 when the own loss did not repeat."""
    for flag in ("from_step", "steps"):
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            shown = f"--{flag.replace('_', '-')}"
            raise ConfigurationError(f"must be at least 1, got {value}", where=shown)
    path = find_run(arguments.run, arguments.runs)
    registry = Registry.discover()
    directory = RunDirectory.open(path.resolve())
    try:
        config = configuration.load(path / "config.toml")
        other = other_section(
            config.objective,
            objective=arguments.objective,
            preset=arguments.preset,
            overrides=arguments.overrides,
        )
        _check(config, other, registry)
        first, steps = arguments.from_step, recorded_steps(directory)
        chosen = chosen_steps(steps, first, arguments.steps, where=str(path))
        output = _folder(arguments, path)
        replay = Replay(directory, config, registry, other, output, arguments.follow)
        display = open_display(quiet=arguments.quiet)
        for line in changed(directory, config, registry):
            display.message(f"the run was trained with {line}")
        write_aside(output / "replay.json", _facts(replay, arguments, chosen).encode())
        try:
            with contextlib.redirect_stdout(sys.stderr):
                job = _replayed(replay, steps[: chosen[-1].step], first, display)
                lines = asyncio.run(job)
        finally:
            display.close()
    finally:
        directory.close()
    return _closing(config, arguments, output, lines)


def label(arguments: argparse.Namespace) -> str:
    """What the other loss is called: its objective, its preset, or the run's own."""
    return str(arguments.objective or arguments.preset or "own")


def _check(config: RunConfig, other: ObjectiveSection, registry: Registry) -> None:
    compose(registry, other.model_dump(mode="json"))
    if not (Path(config.model.path) / "config.json").is_file():
        raise ConfigurationError(
            f"the weights that the run started from are gone from {config.model.path!r}",
            where="model.path",
            next="replay where the run was started, or put the model back",
        )


def _folder(arguments: argparse.Namespace, path: Path) -> Path:
    """A new folder of its own."""
    if arguments.to is not None:
        arguments.to.mkdir(parents=True)
        return Path(arguments.to)
    name = (
        f"{label(arguments).replace('/', '-').replace(':', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    for number in range(1, 100):
        folder = path / "replays" / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise ConfigurationError(f"{name!r} is there already", where=str(path / "replays"))


async def _replayed(
    replay: Replay, steps: list[Recorded], first: int, display: Display
) -> list[dict[str, Any]]:
    """Every step's line, written as it comes."""
    start, lines = time.monotonic(), list[dict[str, Any]]()
    last = steps[-1].step
    display.message(f"replaying steps {first} to {last} of {replay.config.name}")
    with (replay.output / "steps.jsonl").open("w", encoding="utf-8") as file:
        async for step in replay.steps(steps, first):
            lines.append(step.to_json())
            file.write(json.dumps(lines[-1]) + "\n")
            file.flush()
            seconds = time.monotonic() - start
            angle = step.comparison.cosine.get("")
            phase = "" if angle is None else f"cosine {angle:.3f}"
            loss = step.comparison.other.loss[""]
            display.update(
                Snapshot(
                    replay.config.name, step.step, last, seconds=seconds, loss=loss, phase=phase
                )
            )
    return lines


def _closing(
    config: RunConfig, arguments: argparse.Namespace, output: Path, lines: list[dict[str, Any]]
) -> int:
    exact = sum(line["exact"] for line in lines)
    weights = [line["same_weights"] for line in lines if line["same_weights"] is not None]
    checked = f"own loss as recorded, to the last bit, in {exact} of {len(lines)} steps"
    if weights:
        checked += f"; weights as pushed in {sum(weights)} of {len(weights)} pushes still kept"
    own = config.objective.objective.name if config.objective.objective else config.objective.preset
    page = write_comparison(
        output / "replay.html",
        lines,
        run=config.name,
        own=own,
        other=label(arguments),
        checked=f"{checked[0].upper()}{checked[1:]}.",
    )
    rows = summary(lines)
    if arguments.json:
        values = {
            "steps": len(lines),
            "exact": exact,
            "same_weights": sum(weights),
            "pushes_kept": len(weights),
            "domains": {row.domain: asdict(row) for row in rows},
            "lines": str(output / "steps.jsonl"),
            "page": str(page),
        }
        print(json.dumps(values, indent=2))
    else:
        print(f"{config.name}: {own} → {label(arguments)}, means over {len(lines)} steps\n")
        print_table(HEADERS, [row.cells() for row in rows])
        print(f"\n{checked}\n{OFF_POLICY}\n\nlines: {output / 'steps.jsonl'}\npage:  {page}")
    return 0 if exact == len(lines) and all(weights) else 1


def _facts(replay: Replay, arguments: argparse.Namespace, chosen: list[Recorded]) -> str:
    sections = {"own": replay.config.objective, "other": replay.other}
    values = {
        "run": replay.config.name,
        **{k: s.model_dump(mode="json", exclude_none=True) for k, s in sections.items()},
        "follow": replay.follow,
        "first": arguments.from_step,
        "last": chosen[-1].step,
        "plugins": replay.registry.versions(),
        "note": OFF_POLICY,
    }
    return json.dumps(values, indent=1)
