"""`mintact verl`: what verl finds of ours, and a preset as arguments of verl's command line."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from typing import Any

from mintact_platform.errors import MintactError
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import parameters
from mintact_plugin_verl.presets import overrides
from mintact_plugin_verl.representable import refusal, verl_name

EXAMPLES = """\
  mintact verl                       names in verl, their parameters, and what verl cannot carry
  mintact verl mintact --length-cap 4096
  python -m verl.trainer.main_ppo $(mintact verl grpo) data.train_files=…
"""
_KINDS = ("objectives", "advantages", "presets")


def main(argv: list[str]) -> int:
    """Command line of `mintact verl`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mintact verl",
        description="What verl finds of ours, or a preset as arguments of verl's command line.",
        epilog=f"examples:\n{EXAMPLES.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("preset", nargs="?", metavar="PRESET", help="print it as verl's arguments")
    parser.add_argument(
        "--length-cap", type=int, metavar="TOKENS", help="L_cap of presets with a constant divisor"
    )
    parser.add_argument("--json", action="store_true", help="the list as JSON")
    options = parser.parse_args(argv)
    registry = Registry.discover()
    if options.preset is None:
        _list(rows(registry), as_json=options.json)
        return 0
    for line in overrides(registry, options.preset, length_cap=options.length_cap):
        print(line)
    return 0


def rows(registry: Registry) -> list[dict[str, Any]]:
    """One row a name: `kind`, `name` in verl, `parameters`, `refused` (why, or None)."""
    return [_row(registry, kind, name) for kind in _KINDS for name in registry.names(kind)]


def _row(registry: Registry, kind: str, name: str) -> dict[str, Any]:
    known = name if kind == "presets" else verl_name(name)
    row: dict[str, Any] = {"kind": kind[:-1], "name": known, "parameters": [], "refused": None}
    try:
        if kind == "presets":
            overrides(registry, name, length_cap=1)
            return row
        function = registry.get(kind, name)
        row["parameters"] = list(parameters(function).model_fields)
        if kind == "objectives" and (error := refusal(name, function)):
            raise error
    except MintactError as error:
        row["refused"] = str(error)
    return row


def _list(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    width = max((len(row["name"]) for row in found), default=0) + 2
    for row in found:
        told = f"refused: {row['refused']}" if row["refused"] else " ".join(row["parameters"])
        print(f"{row['kind']:11}{row['name']:{width}}{told}".rstrip())
    if find_spec("verl") is None:
        print("verl is not installed in this interpreter")
