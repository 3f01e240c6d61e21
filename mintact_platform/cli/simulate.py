"""`mintact simulate`: how a run would go, from assumptions or from a recorded run."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mintact_platform.cli.tables import print_table
from mintact_platform.dashboard.history import find_run
from mintact_platform.dashboard.simulated import picture
from mintact_platform.dashboard.terminal import percent
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.simulation.assumptions import Assumptions, changed, load
from mintact_platform.scheduler.simulation.fit import fit_run
from mintact_platform.scheduler.simulation.result import Simulation
from mintact_platform.scheduler.simulation.simulate import Case, cases
from mintact_platform.storage.files import write_aside

EXAMPLES = """\
  mintact simulate assumptions.toml
  mintact simulate assumptions.toml trainer.seconds=90 domains.web.producers=32
  mintact simulate assumptions.toml --sweep domains.web.producers=8,16,32 --seeds 5
  mintact simulate assumptions.toml --sweep schedule.flow_control=none,credit
  mintact simulate --from my-run                           fitted to a recorded run
  mintact simulate --from my-run active=64 --picture run.svg

assumptions.toml:
  steps = 150                    # trainer steps
  trainer.seconds = 150          # of one step
  [domains.web]
  quota = 32                     # groups in a batch
  seconds = 60                   # mean duration of a group, log-normal (sigma = 0.6)
  informative = 0.6              # share of groups that enter the queue
  producers = 60                 # groups in flight at most
  [domains.phone]
  quota = 32
  seconds = 300
  informative = [[0, 0.5], [100, 0.2]]   # from step 0 to step 100
  producers = 60
  [schedule]                     # and [sync]: as in a run file
  flow_control = "quota_normalised"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="ASSUMPTIONS.toml | key=value",
        help="a file of assumptions, then overrides, read as TOML, else as a string",
    )
    parser.add_argument(
        "--from", dest="source", metavar="RUN", help="fit a recorded run instead of reading a file"
    )
    parser.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="key=a,b,…",
        help="simulate each value; several make every combination",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each setting (1)"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw queue, batches and idle time"
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate; exit code 1 when a run stood still."""
    if arguments.seeds < 1:
        raise ConfigurationError(f"{arguments.seeds} seeds are too few", where="--seeds")
    if arguments.picture and arguments.sweep:
        raise ConfigurationError("a picture shows one setting", next="leave out --sweep")
    assumptions, title = _assumptions(arguments)
    told = _silent if arguments.quiet or not sys.stderr.isatty() else _tell
    registry = Registry.discover()
    made = list(
        cases(assumptions, registry, wishes=arguments.sweep, seeds=arguments.seeds, told=told)
    )
    told(-1, 0)
    if arguments.picture:
        drawing = picture(made[0].results[0], f"{title}: {_pace(made[0])}")
        write_aside(arguments.picture, drawing.encode())
    if arguments.json:
        print(
            json.dumps({"assumptions": assumptions.model_dump(mode="json"), "cases": _json(made)})
        )
    elif arguments.sweep:
        _print_sweep(made)
    else:
        _print_case(made[0])
        if arguments.picture:
            print(f"\npicture: {arguments.picture}")
    return int(any(result.stuck for case in made for result in case.results))


def _assumptions(arguments: argparse.Namespace) -> tuple[Assumptions, str]:
    words: list[str] = arguments.words
    files = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    if arguments.source:
        if files:
            raise ConfigurationError(f"--from and {files[0]!r}: give one of them")
        path = find_run(arguments.source, arguments.runs)
        return changed(fit_run(path), overrides), path.resolve().name
    if len(files) != 1:
        raise ConfigurationError(
            "give one file of assumptions, or --from RUN",
            next="mintact simulate --help shows a file",
        )
    return load(Path(files[0]), overrides), Path(files[0]).stem


def _tell(done: int, of: int) -> None:
    text = f"simulating {done + 1} of {of}" if of else ""
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _silent(done: int, of: int) -> None:
    pass


def _json(made: Sequence[Case]) -> list[dict[str, object]]:
    return [
        {"overrides": list(case.overrides), "results": [r.to_json() for r in case.results]}
        for case in made
    ]


def _pace(case: Case) -> str:
    return f"{case.mean(lambda r: r.steps_per_hour):.1f} steps an hour"


def _print_case(case: Case) -> None:
    first, mean = case.results[0], case.mean
    over = f" (mean of {len(case.results)} seeds)" if len(case.results) > 1 else ""
    print(f"{_pace(case)}{over}; {_bound(case)}")
    if any(result.stuck for result in case.results):
        print(f"stood still after step {first.steps}: trainer and producers wait for each other")
    print(
        f"trainer idle {_share(mean(lambda r: r.trainer_idle))}, "
        f"wasted {_share(mean(lambda r: r.wasted))} of accepted groups, "
        f"{mean(lambda r: r.relaxed):.0f} of {first.steps} steps off the quotas"
    )
    print(
        f"a batch was waited for {mean(lambda r: r.wait[0]):.0f} s "
        f"(95 %: {mean(lambda r: r.wait[1]):.0f} s); its groups lay "
        f"{mean(lambda r: r.age[0]):.0f} s in the queue (95 %: {mean(lambda r: r.age[1]):.0f} s)"
    )
    print()
    rows = [_domain_row(case, name) for name in case.assumptions.domains]
    headers = ("domain", "quota", "share", "evicted", "stale", "filtered", "idle", "steps/h alone")
    print_table(headers, rows)


def _bound(case: Case) -> str:
    first, reached = case.results[0], case.mean(lambda r: r.of_bound)
    limit = f"{first.bounds[first.binding]:.1f}"
    if reached > 1.02:
        return f"with exact quotas {first.binding} could sustain {limit}"
    return f"{percent(reached)} of the {limit} that {first.binding} can sustain"


def _domain_row(case: Case, name: str) -> tuple[str, ...]:
    def mean(value: Callable[[Simulation], float]) -> float:
        return case.mean(value)

    bound = case.results[0].bounds.get(name)
    return (
        name,
        str(case.assumptions.domains[name].quota),
        percent(mean(lambda r: r.domains[name].share)),
        f"{mean(lambda r: r.domains[name].evicted):.0f}",
        _share(mean(lambda r: r.domains[name].stale_share)),
        f"{mean(lambda r: r.domains[name].filtered):.0f}",
        percent(mean(lambda r: r.domains[name].idle)),
        "–" if bound is None else f"{bound:.1f}",
    )


def _print_sweep(made: Sequence[Case]) -> None:
    keys = [override.partition("=")[0].rpartition(".")[2] for override in made[0].overrides]
    headers = (*keys, "steps/h", "of bound", "idle", "wasted", "stale", "binds")
    rows = []
    for case in made:
        values = [override.partition("=")[2] for override in case.overrides]
        stuck = any(result.stuck for result in case.results)
        rows.append(
            (
                *values,
                "stuck" if stuck else f"{case.mean(lambda r: r.steps_per_hour):.1f}",
                _of_bound(case),
                _share(case.mean(lambda r: r.trainer_idle)),
                _share(case.mean(lambda r: r.wasted)),
                _share(case.mean(lambda r: r.stale)),
                case.results[0].binding,
            )
        )
    print_table(headers, rows)


def _of_bound(case: Case) -> str:
    reached = case.mean(lambda r: r.of_bound)
    return percent(reached) if math.isfinite(reached) else "–"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
