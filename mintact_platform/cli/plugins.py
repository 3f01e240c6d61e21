"""`mintact plugins`: one row a plugin, a broken one with its error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mintact_platform.cli.tables import print_table
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry

EXAMPLES = """\
  mintact plugins
  mintact plugins acme                     those whose name, or what they register, holds `acme`
  mintact plugins --broken --verbose       what failed, with the traceback
  mintact plugins --json | jq '.[].provides'
  MINTACT_DISABLE_PLUGINS=acme-env mintact plugins     leave one out

variables, by distribution and separated by commas:
  MINTACT_DISABLE_PLUGINS=a,b   leave these out      MINTACT_PLUGINS=a,b   only these
  MINTACT_STRICT_PLUGINS=1      a failure ends it    MINTACT_PLUGIN_SECONDS=20   for an import
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only plugins whose names hold one of these words"
    )
    parser.add_argument("--broken", action="store_true", help="only those with an error")


def run(arguments: argparse.Namespace) -> int:
    """List; exit code 0 even when a plugin failed, since the rows say so.

    Raises:
        ConfigurationError: no plugin goes by any of the words.
    """
    registry = Registry.discover()
    for line in registry.warnings:
        print(f"mintact: {line}", file=sys.stderr)
    everything = [*registry.rows, *registry.left_out]
    rows = chosen(everything, arguments.words, broken=arguments.broken)
    clashes = registry.clashes()
    if arguments.words and not rows and not arguments.broken:
        known = [row.distribution for row in everything]
        raise ConfigurationError(
            f"no plugin has {' or '.join(map(repr, arguments.words))} in its name",
            next=near_match(arguments.words[0], known),
        )
    if arguments.json:
        print(json.dumps([as_json(row, clashes) for row in rows], indent=2))
        return 0
    headers: Sequence[str] = ("distribution", "version", "provides", "ms", "error")
    cells: Sequence[Sequence[str]] = [_cells(row, clashes) for row in rows]
    if not any(row[-1] for row in cells):
        headers, cells = headers[:-1], [row[:-1] for row in cells]
    whole, lists = ("distribution", "version", "ms"), ("provides", "error")
    print_table(headers, cells, whole=whole, lists=lists)
    if arguments.verbose:
        _print_traces(rows)
    if not arguments.quiet:
        print(_summary(everything, rows), file=sys.stderr)
    return 0


def chosen(rows: Sequence[PluginRow], words: Sequence[str], *, broken: bool) -> list[PluginRow]:
    """Rows that any of the words finds, in the distribution's name or in what it registers."""
    lower = [word.lower() for word in words]
    return [
        row
        for row in rows
        if (row.error or not broken)
        and (not words or any(word in text for word in lower for text in _texts(row)))
    ]


def as_json(row: PluginRow, clashes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Everything about a plugin, as JSON values.

    Args:
        row: of the plugin.
        clashes: distributions by `kind:name` of what several register.
    """
    return {
        "distribution": row.distribution,
        "version": row.version,
        "entry_point": row.entry_point,
        "state": row.state,
        "hooks": list(row.hooks),
        "provides": list(row.provides),
        "clashes": {name: list(clashes[name]) for name in row.provides if name in clashes},
        "requires": list(row.requires),
        "milliseconds": round(row.milliseconds, 3),
        "error": row.error,
        "traceback": row.trace,
    }


def _texts(row: PluginRow) -> Iterator[str]:
    yield row.distribution.lower()
    for item in row.provides:
        yield item.partition(":")[2].lower()


def _cells(row: PluginRow, clashes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    provides = "\n".join(_by_kind(row.provides)) or ", ".join(row.hooks)
    notes = [row.error] if row.error else []
    if row.state.startswith("left out"):
        notes.append(row.state)
    for name in row.provides:
        others = [other for other in clashes.get(name, ()) if other != row.distribution]
        if others:
            notes.append(f"{name.replace(':', ' ', 1)} is also registered by {', '.join(others)}")
    milliseconds = f"{row.milliseconds:.1f}" if row.state == "loaded" else ""
    return row.distribution, row.version, provides, milliseconds, "\n".join(notes)


def _by_kind(provides: tuple[str, ...]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for item in provides:
        kind, _, name = item.partition(":")
        kinds.setdefault(kind.replace("_", " "), []).append(name)
    return [f"{kind}: {', '.join(names)}" for kind, names in kinds.items()]


def _print_traces(rows: Sequence[PluginRow]) -> None:
    for row in rows:
        if row.trace:
            print(f"\n{row.distribution} {row.version}\n{row.trace.rstrip()}", file=sys.stderr)


def _summary(everything: Sequence[PluginRow], shown: Sequence[PluginRow]) -> str:
    """The numbers, and where to go from here."""
    loaded = sum(row.state == "loaded" for row in everything)
    failed = sum(row.error is not None for row in everything)
    aside = sum(row.state.startswith("left out") for row in everything)
    total = sum(row.milliseconds for row in everything)
    parts = [f"{len(everything)} plugins: {loaded} loaded in {total:.0f} ms"]
    parts += [f"{failed} with an error (--broken shows them)"] if failed else []
    parts += [f"{aside} left out"] if aside else []
    parts += [f"{len(shown)} shown"] if len(shown) != len(everything) else []
    return ", ".join(parts)
