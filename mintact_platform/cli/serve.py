"""`mintact serve`: an environment server in the foreground, for other machines or for curl."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mintact_platform.cli.choices import PORTS, check_bearer, check_environment, whole
from mintact_platform.environments.server.app import ServerSpec, new_directory, serve
from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.registry.names import Registry

EXAMPLES = """\
  mintact serve micro/web micro/mobile            on this machine, a free port
  mintact serve micro/mobile --port 8700 --json   one line of JSON for a script
  mintact serve gym/CartPole-v1                   any registered gymnasium environment
  BEARER=… mintact serve micro/web --host 0.0.0.0 --port 8700 --bearer-env BEARER

use it in a run file:    [domains.web]  servers = ["http://host:8700"]
try it by hand:          mintact play micro/web --server http://127.0.0.1:8700

a whole lease with curl 7.82 or newer (screenshots come as base64):
  U=http://127.0.0.1:8700/v1/leases
  L=$(curl -s $U --json '{"key": "mine", "environment": "micro/mobile", "ttl_s": 600}')
  ID=$(jq -r .lease <<< "$L"); T="Mintact-Lease-Token: $(jq -r .token <<< "$L")"
  curl -s $U/$ID/reset -H "$T" --json '{"episode": "one", "task": {"goal": "…"}, "seed": 7}'
  curl -s $U/$ID/step -H "$T" --json '{"step": 0, "action": {"name": "mobile_use",
      "arguments": {"action": "click", "coordinate": [16, 16]}}}'
  curl -s $U/$ID/step -H "$T" --json '{"step": 1, "action": {"name": "mobile_use",
      "arguments": {"action": "terminate", "status": "success"}}}'
  curl -s $U/$ID/evaluate -H "$T" --json '{}'
  curl -s -X DELETE $U/$ID -H "$T"
  curl -s http://127.0.0.1:8700/v1/environments     what is served, how full
With a bearer token, add:  -H "Authorization: Bearer $BEARER"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument(
        "environments", nargs="*", metavar="ENV", help="registered name, or module:attribute"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to (127.0.0.1)")
    port = whole("--port", 0, PORTS)
    parser.add_argument("--port", type=port, default=0, help="port; 0 takes a free one (0)")
    parser.add_argument(
        "--bearer-env",
        metavar="NAME",
        help="environment variable that holds the bearer token; needed outside loopback",
    )
    leases = whole("--capacity", 1)
    parser.add_argument("--capacity", type=leases, default=512, metavar="N", help="leases (512)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="another interpreter that workers may run in; may be repeated",
    )
    parser.add_argument(
        "--spares",
        type=whole("--spares", 0),
        default=0,
        metavar="N",
        help="booted instances kept ready (0)",
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("logs"), metavar="DIR", help="workers' output (logs/)"
    )
    parser.add_argument(
        "--allow-any",
        action="store_true",
        help="serve every installed environment and any module:attribute a client names",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; every worker is killed then."""
    spec = server_spec(arguments, Registry.discover())
    directory, mark = new_directory(), f"mintact-serve-{os.getpid()}-{secrets.token_hex(4)}"
    asyncio.run(
        serve(spec, directory=directory, mark=mark, ready=_announcement(spec, arguments.json))
    )
    return 0


def server_spec(arguments: argparse.Namespace, registry: Registry) -> ServerSpec:
    """The server that the flags describe.

    Raises:
        ConfigurationError: nothing to serve, no token, a program that is missing.
        PluginNotFound: an environment nobody registers.
    """
    if not arguments.environments and not arguments.allow_any:
        raise ConfigurationError(
            "nothing to serve",
            next=f"name environments ({', '.join(registry.names('environments'))}) or --allow-any",
        )
    check_bearer(arguments.bearer_env)
    for name in arguments.environments:
        _check(registry, name, elsewhere=bool(arguments.python))
    values: dict[str, Any] = {
        "host": arguments.host,
        "port": arguments.port,
        "environments": None if arguments.allow_any else arguments.environments,
        "pythons": arguments.python,
        "capacity": arguments.capacity,
        "bearer_env": arguments.bearer_env,
        "logs": arguments.logs,
    }
    if arguments.spares:
        values["spares"] = arguments.spares
    return ServerSpec.model_validate(values)


def _check(registry: Registry, name: str, *, elsewhere: bool) -> None:
    """An environment that is not installed here may be so in another interpreter."""
    try:
        check_environment(registry, name, None)
    except PluginNotFound as error:
        if not elsewhere:
            raise
        print(f"mintact: {error}; left to the other interpreters", file=sys.stderr)


def _announcement(spec: ServerSpec, as_json: bool) -> Callable[[dict[str, Any]], None]:
    def announce(ready: dict[str, Any]) -> None:
        served = ["any"] if spec.environments is None else spec.environments
        if as_json:
            values = {
                **ready,
                "pid": os.getpid(),
                "environments": spec.environments,
                "capacity": spec.capacity,
                "bearer": spec.bearer_env is not None,
                "logs": str(spec.logs.resolve()),
            }
            print(json.dumps(values), flush=True)
            return
        key = f", bearer token in {spec.bearer_env}" if spec.bearer_env else ""
        print(
            f"{ready['url']} serves {', '.join(served)}: {spec.capacity} leases{key}, "
            f"logs in {spec.logs}/ (Ctrl-C ends it)",
            flush=True,
        )

    return announce
