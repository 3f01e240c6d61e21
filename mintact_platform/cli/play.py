"""`mintact play`: act in an environment yourself, as the agent does, in a browser page."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

from mintact_platform.cli.choices import (
    PORTS,
    check_bearer,
    check_environment,
    read_pairs,
    read_plugin,
    whole,
)
from mintact_platform.config import Plugin
from mintact_platform.environments.pools.pool import PoolSpec
from mintact_platform.play.serving import play
from mintact_platform.play.settings import PlaySettings
from mintact_platform.play.tasks import choose_tasks
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry

DEFAULT_JUDGE = "state"
EXAMPLES = """\
  mintact play micro/web                          its tasks, one after the other
  mintact play micro/web --task micro/web/test/0007
  mintact play micro/mobile --tasks micro/mobile:test --save demos.jsonl
  mintact play micro/tools --param announce=both
  mintact play acme/maze --goal escape --seed 3 --judge environment_return
  mintact play micro/web --server http://127.0.0.1:8700 --bearer-env BEARER
  mintact play micro/web --action-space '{name="browser_use",params={prompt="short"}}'

train on what was saved:  [sft]  data = [{ name = "episodes", params = { path = "demos.jsonl" } }]
Keys are listed in the page under ?; Ctrl-C here ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("environment", metavar="ENV", help="registered name, or module:attribute")
    what = parser.add_argument_group("what to do")
    what.add_argument("--task", metavar="ID", help="begin with this task of the set")
    what.add_argument("--tasks", metavar="NAME", help="task set, NAME or NAME:split (ENV:train)")
    what.add_argument("--goal", metavar="TEXT", help="a goal of your own instead of a task set")
    what.add_argument(
        "--seed", type=whole("--seed", 0), metavar="N", help="of the environment, counted up"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--param", action="append", default=[], metavar="k=v", help="the environment's parameter"
    )
    how.add_argument("--action-space", metavar="NAME", help="instead of the environment's own")
    how.add_argument("--judge", metavar="NAME", help=f"who says how it went ({DEFAULT_JUDGE})")
    turns = whole("--max-turns", 1)
    how.add_argument("--max-turns", type=turns, default=30, metavar="N", help="turns at most (30)")
    how.add_argument("--server", metavar="URL", help="lease it there instead of starting it here")
    how.add_argument("--bearer-env", metavar="NAME", help="variable with the server's token")
    how.add_argument("--python", metavar="PATH", help="interpreter that the environment runs in")
    page = parser.add_argument_group("page")
    page.add_argument("--save", type=Path, metavar="FILE", help="where episodes are appended")
    port = whole("--port", 0, PORTS)
    page.add_argument("--port", type=port, default=0, metavar="N", help="0 takes a free one (0)")
    page.add_argument("--no-browser", action="store_true", help="print the address only")


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until interrupted; the environment is given back then."""
    registry = Registry.discover()
    settings = play_settings(arguments, registry)
    tasks = choose_tasks(
        registry,
        arguments.environment,
        tasks=arguments.tasks,
        task=arguments.task,
        goal=arguments.goal,
        seed=arguments.seed,
    )
    ready = _announcement(settings, arguments)
    asyncio.run(play(settings, tasks, registry, port=arguments.port, ready=ready))
    return 0


def play_settings(arguments: argparse.Namespace, registry: Registry) -> PlaySettings:
    """What the flags describe, looked up and checked.

    Raises:
        ConfigurationError: a wrong parameter, a missing token or program.
        PluginNotFound: a name nobody registers.
    """
    name, params = arguments.environment, read_pairs(arguments.param, "--param")
    check_bearer(arguments.bearer_env)
    if not arguments.server and not arguments.python:
        check_environment(registry, name, params)
    space = arguments.action_space and read_plugin(arguments.action_space, "--action-space")
    if space:
        _bound("action_spaces", space, registry)
    judge = _judge(arguments.judge, registry)
    folder = arguments.runs / "play"
    file = f"{name.replace('/', '-').replace(':', '-')}.jsonl"
    return PlaySettings(
        pool=PoolSpec(
            name,
            params,
            instances=1,
            servers=(arguments.server,) if arguments.server else (),
            python=arguments.python,
            bearer_env=arguments.bearer_env,
        ),
        save=arguments.save or folder / file,
        logs=folder / "logs",
        action_space=space or None,
        judge=_bound("judges", judge, registry) if judge else None,
        judge_name=judge.name if judge else "",
        max_turns=arguments.max_turns,
        seed=arguments.seed or 0,
    )


def _judge(wanted: str | None, registry: Registry) -> Plugin | None:
    if wanted is not None:
        return read_plugin(wanted, "--judge")
    return Plugin(name=DEFAULT_JUDGE) if DEFAULT_JUDGE in registry.names("judges") else None


def _bound(kind: str, choice: Plugin, registry: Registry) -> Callable[..., object]:
    where = f"{kind.replace('_', ' ').removesuffix('s')} {choice.name!r}"
    return parameters.bind(registry.get(kind, choice.name), choice.params, where=where)


def _announcement(settings: PlaySettings, arguments: argparse.Namespace) -> Callable[[str], None]:
    def announce(url: str) -> None:
        if arguments.json:
            values = {"url": url, "pid": os.getpid(), "save": str(settings.save)}
            print(json.dumps(values), flush=True)
        else:
            print(f"play {settings.pool.environment} at {url}", flush=True)
            if not arguments.quiet:
                print(f"episodes are saved to {settings.save}; Ctrl-C ends it", file=sys.stderr)
        if not arguments.no_browser and _graphical():
            webbrowser.open(url)

    return announce


def _graphical() -> bool:
    """Whether a browser window can open: without one, a text browser would take the terminal."""
    return sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
