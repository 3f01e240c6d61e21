"""`mintact objectives`: the presets and parts of a loss that `[objective]` can name."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from mintact_platform.errors import PluginError, PluginNotFound, about, near_match
from mintact_platform.registry import signatures
from mintact_platform.registry.names import Registry
from mintact_platform.training.describe import Description, describe
from mintact_platform.training.objective import Preset

KINDS = ("presets", "objectives", "advantages", "corrections", "normalisers")
WIDTH = 100
_HARD_SPACE = "\u00a0"
"""Keeps a parameter on one line."""
EXAMPLES = """\
  mintact objectives
  mintact objectives gspo
  mintact train run.toml objective.preset=grpo
  mintact train run.toml objective.objective=acme/cispo
"""
HEADS = {
    "presets": "presets: objective.preset = NAME",
    "objectives": "objectives: the surrogate l of a token, to be minimised; terms are added to it",
    "advantages": "advantages: Â",
    "corrections": "corrections: the weight w of a token",
    "normalisers": "normalisers: S",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("name", nargs="?", help="show what has this name in full")


def run(arguments: argparse.Namespace) -> int:
    """List every part, or show those of one name in full."""
    registry = Registry.discover()
    if ":" in (arguments.name or ""):
        target = registry.get("objectives", arguments.name)
        with about(f"objective {arguments.name!r}"):
            signatures.read(target)
    entries = [(kind, name) for kind in KINDS for name in registry.names(kind)]
    if arguments.name:
        entries = _named(arguments.name, entries)
    rows = [_row(registry, kind, name) for kind, name in entries]
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif arguments.name:
        print("\n\n".join(_full(row) for row in rows))
    else:
        print("\n".join(_listing(rows)))
    return 0


def _named(name: str, entries: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if ":" in name:
        return [("objectives", name)]
    chosen = [entry for entry in entries if entry[1] == name]
    if not chosen:
        known = sorted({entry[1] for entry in entries})
        raise PluginNotFound(f"nothing is named {name!r}", next=near_match(name, known))
    return chosen


def _row(registry: Registry, kind: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind.removesuffix("s"), "name": name, "distribution": ""}
    try:
        row["distribution"] = registry.provider(kind, name)
        target = registry.get(kind, name)
        said = describe(target)
    except PluginError as error:
        return {**row, **_said(Description(summary=str(error)))}
    row |= _said(said)
    if isinstance(target, Preset):
        row["parts"] = {part: getattr(target, part.removesuffix("s")) for part in KINDS[1:]}
        row["params"] = ", ".join(
            f"{part} {dict(params)}" for part, params in target.params.items()
        )
    return row


def _said(said: Description) -> dict[str, Any]:
    return {
        "is": said.summary,
        "formula": said.formula,
        "params": ", ".join(
            f"{p.name}={p.default}" if p.default else p.name for p in said.parameters
        ),
        "parameters": [
            {"name": p.name, "type": p.type, "default": p.default} for p in said.parameters
        ],
        "source": said.source,
        "trap": said.trap,
        "habits": {
            "micro_batch_invariant": said.habits.micro_batch_invariant,
            "own_correction": said.habits.correction == "own",
            "needs": sorted(said.habits.needs),
        },
        "text": said.text,
    }


def _listing(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Blocks of a few lines, none wider than `WIDTH`."""
    kind = ""
    for row in rows:
        if row["kind"] != kind:
            yield ("\n" if kind else "") + HEADS[row["kind"] + "s"]
            kind = row["kind"]
        third = "" if row["distribution"].startswith("mintact-") else f" ({row['distribution']})"
        yield _wrapped(f"{row['name']:<22} {row['is']}{third}", 2, 25)
        yield from (_wrapped(line, 25, 29) for line in row["formula"].splitlines())
        for line in (_parameters(row), _habits(row), row["source"]):
            if line:
                yield _wrapped(line, 25, 25)
    names = ", ".join(sorted({row["distribution"] for row in rows} - {""}))
    yield "\n" + _wrapped(f"from {names}; `mintact objectives NAME` shows one in full", 0, 2)


def _full(row: dict[str, Any]) -> str:
    lines = [f"{row['kind']} {row['name']}  ({row['distribution']})", "", row["text"]]
    if "parts" in row:
        lines += ["", f"    {row['formula']}", ""]
        lines += [f"{part.removesuffix('s'):<11} {name}" for part, name in row["parts"].items()]
    for head, line in (("parameters", _parameters(row)), ("habits", _habits(row))):
        if line:
            lines += ["", _wrapped(f"{head}: {line}", 0, 2)]
    return "\n".join(lines)


def _parameters(row: dict[str, Any]) -> str:
    typed = [
        f"{p['name']}{': ' + p['type'] if p['type'] else ''}"
        f"{' = ' + p['default'] if p['default'] else ''}"
        for p in row["parameters"]
    ]
    return ", ".join(one.replace(" ", _HARD_SPACE) for one in typed) or row["params"]


def _habits(row: dict[str, Any]) -> str:
    habits = row["habits"]
    said = [
        ""
        if habits["micro_batch_invariant"]
        else "sees the whole update: micro_batch_invariant = no",
        "corrects for π_roll itself: no correction may be added"
        if habits["own_correction"]
        else "",
        f"needs {', '.join(habits['needs'])}" if habits["needs"] else "",
    ]
    return "; ".join(filter(None, said))


def _wrapped(text: str, first: int, rest: int) -> str:
    filled = textwrap.fill(
        text,
        WIDTH,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_on_hyphens=False,
    )
    return filled.replace(_HARD_SPACE, " ")
