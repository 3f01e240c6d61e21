"""`mintact objectives`: the presets and losses that `[objective]` can name."""

from __future__ import annotations

import argparse
import inspect
import json

from mintact_platform.cli.tables import print_table
from mintact_platform.errors import PluginError
from mintact_platform.registry.names import Registry

KINDS = ("presets", "objectives", "advantages", "corrections", "normalisers")
EXAMPLES = """\
  mintact objectives
  mintact train run.toml objective.preset=grpo
  mintact train run.toml objective.objective=acme/cispo
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""


def run(arguments: argparse.Namespace) -> int:
    """List every part with its distribution, parameters and first line of documentation."""
    registry = Registry.discover()
    rows = [_row(registry, kind, name) for kind in KINDS for name in registry.names(kind)]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    headers = {"part": "kind", "name": "name", "from": "distribution", "parameters": "params"}
    keys = [*headers.values(), "is"]
    print_table([*headers, "what it is"], ([row[key] for key in keys] for row in rows))
    return 0


def _row(registry: Registry, kind: str, name: str) -> dict[str, str]:
    row = {"kind": kind.removesuffix("s"), "name": name, "distribution": "", "params": "", "is": ""}
    try:
        row["distribution"] = registry.provider(kind, name)
        target = registry.get(kind, name)
    except PluginError as error:
        return {**row, "is": str(error)}
    if kind == "presets":
        return {**row, "params": _parts(target), "is": "a combination"}
    text = (inspect.getdoc(target) or "").strip().splitlines()
    return {**row, "params": _parameters(target), "is": text[0] if text else ""}


def _parameters(target: object) -> str:
    if not callable(target):
        return ""
    parameters = inspect.signature(target).parameters.values()
    return ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    )


def _parts(preset: object) -> str:
    """A preset's parts, whatever value class it is."""
    parts = {kind.removesuffix("s"): None for kind in KINDS[1:]}
    return ", ".join(f"{part}={getattr(preset, part)!r}" for part in parts if hasattr(preset, part))
