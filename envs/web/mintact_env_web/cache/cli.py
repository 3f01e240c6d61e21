"""`mintact web record`, `validate` and `har`: recorded sites from the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from mintact_env_web.cache.har import export_har, import_har
from mintact_env_web.cache.scripts import read_script
from mintact_env_web.cache.store import Site, sites_in
from mintact_env_web.cache.tasks import TASKS
from mintact_env_web.cache.validate import Result, table, validate
from mintact_env_web.cache.visits import SETTLE_S, Recorded, record
from mintact_platform.errors import ConfigurationError

RECORD_EXAMPLES = """\
examples:
  mintact web record https://shop.example.com
                                        two visits of the start page -> sites/shop.example.com
  mintact web record https://shop.example.com --script calls.jsonl --to sites/shop-tea
                                        two visits in which the calls are carried out

A script has one browser_use call a line, coordinates in pixels of the screen:
  {"action": "click", "coordinate": [640, 220]}
  {"action": "type", "text": "green tea", "coordinate": [500, 80], "enter": true}

To record what you do yourself, or what an agent does, drive the environment `web/record`
(parameters: url, directory) with `mintact play` or in a run; two episodes are two visits.

What changes between visits is learnt and written to site.toml, where you can correct it:
  [rules]
  volatile = ["_", "t", "visitor"]      names of parameters that tell no request apart
  stable = ["session"]                  names that always do
  stubs = ["*.tracker.example/*"]       endpoints that get an empty answer
  nearest = 0.9                         least score at which a similar request answers

next: write tasks.jsonl into the directory (`mintact web validate --help`)
"""
VALIDATE_EXAMPLES = """\
examples:
  mintact web validate sites            every recorded site below sites/
  mintact web validate sites/shop-tea   one of them
  mintact web validate sites --json     for programs

A site's tasks.jsonl has one task a line:
  {"id": "price", "goal": "What does the green tea cost?", "check": {"answer": "4.80"},
   "script": [{"action": "click", "coordinate": [640, 220]},
              {"action": "stop", "response": "4.80"}]}

A check has one or more of: "answer" (text it contains), "url" (regular expression), "text" (shown
in the end), "request" ({"method", "url", "body"} that was made). A task is kept when its site
loads without a network, no document is missing, the check does not hold at the start and holds
after the script. The task set web/cache takes the kept ones:
  [domains.web]
  environment = "web/cache"
  params = { sites = "sites" }
  tasks = "web/cache:train"
  task_params = { sites = "sites" }
"""
HAR_EXAMPLES = """\
examples:
  mintact web har import visit.har --to sites/shop     a browser's 'Save all as HAR with content'
  mintact web har export sites/shop --to shop.har
"""


def add_record(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mintact web record`."""
    parser.epilog = RECORD_EXAMPLES
    parser.add_argument("url", metavar="URL", help="where every visit begins")
    parser.add_argument("--script", type=Path, metavar="FILE", help="calls to carry out")
    parser.add_argument("--to", type=Path, metavar="DIR", help="directory (sites/HOST)")
    parser.add_argument("--visits", type=int, default=2, help="how often it is visited (2)")
    parser.add_argument(
        "--host", action="append", default=[], metavar="PATTERN", help="hosts allowed (all public)"
    )
    parser.add_argument(
        "--private",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="private addresses allowed besides the URL's own",
    )
    parser.add_argument(
        "--settle",
        type=float,
        default=SETTLE_S,
        metavar="SECONDS",
        help=f"how long a page may take to come to rest after a call ({SETTLE_S:g})",
    )
    parser.add_argument("--width", type=int, default=1280, help="of the screen, pixels (1280)")
    parser.add_argument("--height", type=int, default=720, help="pixels (720)")
    parser.add_argument(
        "--keep-secrets",
        action="store_true",
        help="keep cookies, passwords and authorisation headers; they are redacted otherwise",
    )
    parser.add_argument("--json", action="store_true", help="result as JSON on standard output")


def run_record(arguments: argparse.Namespace) -> int:
    """Record a site."""
    if arguments.visits < 1:
        raise ConfigurationError(f"--visits must be at least 1, got {arguments.visits}")
    directory = arguments.to or Path("sites") / (urlsplit(arguments.url).hostname or "site")
    script = read_script(arguments.script) if arguments.script else []
    recorded = asyncio.run(
        record(
            arguments.url,
            directory,
            script=script,
            visits=arguments.visits,
            hosts=arguments.host,
            private=arguments.private,
            size=(arguments.width, arguments.height),
            keep_secrets=arguments.keep_secrets,
            settle_s=arguments.settle,
        )
    )
    _say_recorded(recorded, directory, as_json=arguments.json)
    return 1 if recorded.documents else 0


def add_validate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mintact web validate`."""
    parser.epilog = VALIDATE_EXAMPLES
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR", help="of sites")
    parser.add_argument("--json", action="store_true", help="results as JSON on standard output")


def run_validate(arguments: argparse.Namespace) -> int:
    """Validate sites; 0 when all is kept."""
    results: list[Result] = []
    for directory in arguments.directories:
        sites = sites_in(directory)
        if not sites:
            raise ConfigurationError(
                "no recorded sites", where=str(directory), next="see `mintact web record --help`"
            )
        results += asyncio.run(_validate_all(sites))
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], ensure_ascii=False))
    else:
        print(table(results))
    return 1 if any(result.reason for result in results) else 0


def add_har(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mintact web har`."""
    parser.epilog = HAR_EXAMPLES
    parser.add_argument("direction", choices=("import", "export"))
    parser.add_argument("source", type=Path, metavar="FILE|DIR", help="HAR file, or a site")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR|FILE", help="the other")
    parser.add_argument("--keep-secrets", action="store_true", help="do not redact on import")


def run_har(arguments: argparse.Namespace) -> int:
    """Import or export."""
    if arguments.direction == "export":
        export_har(arguments.source, arguments.to)
        print(f"wrote {arguments.to}")
        return 0
    site = import_har(arguments.source, arguments.to, keep_secrets=arguments.keep_secrets)
    print(f"{arguments.to}: {len(site.entries)} requests, starts at {site.start}")
    print(f"next: mintact web validate {arguments.to}")
    return 0


async def _validate_all(sites: list[Path]) -> list[Result]:
    return [result for site in sites for result in await validate(site)]


def _say_recorded(recorded: Recorded, directory: Path, *, as_json: bool) -> None:
    site: Site = recorded.site
    if as_json:
        told = {
            "directory": str(directory),
            "requests": len(site.entries),
            "sockets": len(site.sockets),
            "visits": site.visits,
            "learnt": {name: list(names) for name, names in site.rules.learnt.items()},
            "misses": list(recorded.misses),
            "documents": list(recorded.documents),
        }
        print(json.dumps(told, ensure_ascii=False))
        return
    print(f"{directory}: {len(site.entries)} requests, {len(site.sockets)} sockets")
    print(f"{site.visits} visits from {site.start}")
    for endpoint, names in site.rules.learnt.items():
        print(f"  changes by itself: {', '.join(names)} of {endpoint}")
    for miss in recorded.misses:
        print(f"  not answered offline: {miss}", file=sys.stderr)
    for document in recorded.documents:
        print(f"mintact: {document}", file=sys.stderr)
    if not (directory / TASKS).exists():
        print(f"next: write {directory / TASKS}; see `mintact web validate --help`")
