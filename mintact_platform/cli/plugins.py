"""`mintact plugins`: one row a plugin, a broken one with its error."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from mintact_platform.cli.tables import print_table
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry

EXAMPLES = """\
  mintact plugins
  mintact plugins --json | jq '.[].provides'
  MINTACT_DISABLE_PLUGINS=acme-env mintact plugins     leave one out
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""


def run(arguments: argparse.Namespace) -> int:
    """List; exit code 0 even when a plugin failed, since the rows say so."""
    registry = Registry.discover()
    _ = registry.tables  # asking for the tables fills in what each row provides
    if arguments.json:
        print(json.dumps([asdict(row) for row in registry.rows], indent=2))
        return 0
    print_table(("distribution", "version", "provides", "ms", "error"), map(_cells, registry.rows))
    return 0


def _cells(row: PluginRow) -> tuple[str, ...]:
    provides = "\n".join(_by_kind(row.provides)) or ", ".join(row.hooks)
    return row.distribution, row.version, provides, f"{row.milliseconds:.1f}", row.error or ""


def _by_kind(provides: tuple[str, ...]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for item in provides:
        kind, _, name = item.partition(":")
        kinds.setdefault(kind.replace("_", " "), []).append(name)
    return [f"{kind}: {', '.join(names)}" for kind, names in kinds.items()]
