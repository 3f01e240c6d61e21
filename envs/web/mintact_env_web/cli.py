"""`mintact web …`: the verbs of this distribution, each imported when it is called."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from mintact_platform.errors import ConfigurationError, near_match


class Verb(NamedTuple):
    """A verb.

    Attributes:
        about: one line.
        module: has `add_<name>(parser)` and `run_<name>(arguments) -> int`.
    """

    about: str
    module: str


_CACHE = "mintact_env_web.cache.cli"
_AGENTIC = "mintact_env_web.agentic.verbs"
VERBS = {
    "record": Verb("record a site so that it replays without a network", _CACHE),
    "validate": Verb("keep the tasks of recorded sites that replay offline", _CACHE),
    "har": Verb("read a site from a browser's HAR file, or write one", _CACHE),
    "write": Verb("have a model write sites, and keep those that pass", _AGENTIC),
    "admit": Verb("examine written sites, and keep those that pass", _AGENTIC),
    "mine": Verb("read from a run's rollouts which capabilities they needed", _AGENTIC),
}


def web(argv: list[str]) -> int:
    """Run `mintact web …`; returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    name, rest = argv[0], argv[1:]
    if name not in VERBS:
        raise ConfigurationError(f"unknown verb {f'web {name}'!r}", next=near_match(name, VERBS))
    return _run(name, rest)


def _run(name: str, words: Sequence[str]) -> int:
    verb = VERBS[name]
    module = import_module(verb.module)
    parser = argparse.ArgumentParser(
        prog=f"mintact web {name}",
        description=verb.about[0].upper() + verb.about[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    getattr(module, f"add_{name}")(parser)
    parser.add_argument("--verbose", action="store_true", help="tracebacks, and every near match")
    arguments = parser.parse_intermixed_args(words)
    _log(verbose=arguments.verbose)
    return int(getattr(module, f"run_{name}")(arguments))


def _log(*, verbose: bool) -> None:
    level = logging.WARNING if verbose else logging.ERROR
    logging.basicConfig(stream=sys.stderr, level=level, format="%(message)s")


def _overview() -> str:
    width = max(map(len, VERBS)) + 2
    lines = ["usage: mintact web VERB …   (mintact web VERB --help shows examples)", ""]
    return "\n".join([*lines, *(f"  {name:{width}}{verb.about}" for name, verb in VERBS.items())])
