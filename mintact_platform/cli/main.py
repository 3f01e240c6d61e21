"""`mintact`: find the verb, run it, turn every known error into one line and an exit code.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from mintact_platform import __version__
from mintact_platform.errors import (
    ConfigurationError,
    MintactError,
    PluginError,
    StorageError,
    WriteFailed,
    near_match,
)

if TYPE_CHECKING:
    from mintact_platform.registry.names import Registry

VERBS = {
    "train": "train a policy by asynchronous RL over the run file's domains",
    "sft": "fine-tune a policy on demonstrations before RL",
    "eval": "measure held-out success per domain, with intervals",
    "rollout": "collect trajectories with any engine: a teacher's, to learn from",
    "play": "act in an environment yourself, as the agent does, in a browser page",
    "serve": "serve environments to runs on other machines, or to curl",
    "simulate": "size a run before renting it: idle time, waste and what binds, on virtual time",
    "show": "summarise a run, or read one of its trajectories",
    "judge": "judge recorded trajectories again, and find out how far a judge can be trusted",
    "replay": "measure another loss on a run's recorded batches",
    "check": "prove that no group of a run was lost or trained twice",
    "report": "write a run's report.html",
    "new": "start a plugin of your own: an environment, a judge, an objective",
    "plugins": "list installed plugins, what they provide and what failed",
    "objectives": "list presets and losses that a run can use",
    "tasks": "list the tasks or the goal templates of a task set",
    "doctor": "say what this machine has and what is missing",
}
BAD_INPUT = (ConfigurationError, PluginError, StorageError)


class Verb(Protocol):
    """What a module of this package offers."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's own arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `mintact` command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _dispatch(words)
    except MintactError as error:
        if "--verbose" in words:
            traceback.print_exc()
        else:
            print(f"mintact: {error}", file=sys.stderr)
        wrong_input = isinstance(error, BAD_INPUT) and not isinstance(error, WriteFailed)
        return 2 if wrong_input else 1
    except KeyboardInterrupt as stop:
        print("; ".join(["mintact: interrupted", *map(str, stop.args)]), file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader (`| head`) has gone; keep the interpreter from flushing into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # a path that cannot be read or written: the user's to mend, not ours to trace
        if "--verbose" in words:
            traceback.print_exc()
        else:
            print(f"mintact: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2


def _terminate(*_: object) -> None:
    """End as by Ctrl-C; what `nohup … &` started ignores Ctrl-C, and must still end by `kill`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def parser_of(name: str, verb: Verb) -> argparse.ArgumentParser:
    """A verb's parser with the flags that all verbs share."""
    parser = argparse.ArgumentParser(
        prog=f"mintact {name}",
        description=VERBS[name][0].upper() + VERBS[name][1:] + ".",
        epilog=f"examples:\n{verb.EXAMPLES.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.add_arguments(parser)
    common = parser.add_argument_group("common")
    common.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="where runs lie (runs/)"
    )
    common.add_argument("--json", action="store_true", help="results as JSON on standard output")
    common.add_argument("--quiet", action="store_true", help="no progress on standard error")
    common.add_argument("--verbose", action="store_true", help="tracebacks and child logs")
    return parser


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"mintact {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name in VERBS:
        verb = cast(Verb, import_module(f"mintact_platform.cli.{name}"))
        return verb.run(parser_of(name, verb).parse_intermixed_args(rest))
    registry = _discover()
    if name.startswith("-") or name not in registry.tables["commands"]:
        known = [*VERBS, *registry.names("commands")]
        raise ConfigurationError(f"unknown verb {name!r}", next=near_match(name, known))
    return int(registry.get("commands", name)(rest))


def _overview() -> str:
    width = max(map(len, VERBS)) + 2
    lines = ["usage: mintact VERB …   (mintact VERB --help shows examples)", ""]
    lines += [f"  {name:{width}}{text}" for name, text in VERBS.items()]
    registry = _discover()
    if plugin_verbs := registry.names("commands"):
        lines += ["", "verbs of plugins:"]
        brought = {name: " and ".join(registry.tables["commands"][name]) for name in plugin_verbs}
        lines += [f"  {name:{width}}{distributions}" for name, distributions in brought.items()]
    lines += [
        "",
        "start here:  mintact train run.toml            train what the run file says",
        "             mintact train run.toml --resume   go on after a stop, a crash, a kill",
        "             mintact show my-run               where it stands",
        "             mintact plugins                   what is installed",
        "",
        "exit codes: 0 done, 1 the run failed, 2 wrong input, 130 interrupted",
    ]
    return "\n".join(lines)


def _discover() -> Registry:
    from mintact_platform.registry.names import Registry

    return Registry.discover()


if __name__ == "__main__":
    sys.exit(main())
