"""Which distributions a run is made of, and whether they are still the ones it was started with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from mintact_platform.config import DomainSection, RunConfig
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.hooks import CORE
from mintact_platform.registry.names import Registry
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.files import write_aside


def used(config: RunConfig, registry: Registry) -> set[str]:
    """Distributions that a run's results depend on, the core among them."""
    found = {CORE}
    for kind, name in _names(config, registry):
        if registry.knows(kind, name):
            found.add(registry.provider(kind, name))
    deciding = [row.distribution for row in registry.rows if "admit_group" in row.hooks]
    return {*found, *deciding} & set(registry.versions())


def pinned(registry: Registry, kind: str, name: str) -> tuple[str, ...]:
    """The requirement that another process has what stands behind a name in the same version.

    Empty for a name that no plugin registers here, and for a version that pip could not compare.
    """
    if not registry.knows(kind, name):
        return ()
    distribution = registry.provider(kind, name)
    try:
        return (f"{distribution}=={Version(registry.versions()[distribution])}",)
    except (InvalidVersion, KeyError):
        return ()


def changed(directory: RunDirectory, config: RunConfig, registry: Registry) -> list[str]:
    """What the run uses in another version than it was started with, one phrase each."""
    before, now = directory.plugins, registry.versions()
    return [
        f"{name} {before.get(name, 'missing')}, now {now[name]}"
        for name in sorted(used(config, registry))
        if before.get(name) != now[name]
    ]


def accept(
    directory: RunDirectory, config: RunConfig, registry: Registry, *, changes: bool
) -> list[str]:
    """Go on with a run only if its plugins are the same, or if changes are wanted.

    Args:
        directory: of the run, open for writing.
        config: as it goes on.
        registry: installed plugins.
        changes: whether other versions will do; the old ones are kept in the table `meta`.

    Returns:
        What changed.

    Raises:
        ConfigurationError: something did, and that is not wanted.
    """
    found = changed(directory, config, registry)
    if not found:
        return []
    if not changes:
        raise ConfigurationError(
            f"the run was started with {'; '.join(found)}",
            where=str(directory.path),
            next="install the old versions, or go on with --accept-changed-plugins",
        )
    number = ledger.get_meta(directory.database, "incarnation", "0")
    old = json.dumps(directory.plugins, sort_keys=True)
    directory.database.submit(ledger.set_meta(f"plugins until start {number}", old)).result()
    new = json.dumps(registry.versions(), indent=1, sort_keys=True)
    write_aside(directory.path / "plugins.json", new.encode())
    return found


def _names(config: RunConfig, registry: Registry) -> Iterator[tuple[str, str]]:
    """Every `(kind, name)` that a run file chooses."""
    yield "chat_formats", config.model.chat
    yield "trainers", config.trainer.name
    yield "rollout_engines", config.rollout.engine
    yield "mixtures", config.schedule.mixture.name
    yield "flow_controls", config.schedule.flow_control.name
    yield from _loss(config, registry)
    for section in config.domains.values():
        yield from _domain(section, registry)
    for source in config.sft.data:
        yield "demonstrations", str(source.get("name", ""))


def _loss(config: RunConfig, registry: Registry) -> Iterator[tuple[str, str]]:
    section = config.objective
    yield "presets", section.preset
    if not registry.knows("presets", section.preset):
        return
    preset = registry.get("presets", section.preset)
    for part in ("advantage", "objective", "correction", "normaliser"):
        choice = getattr(section, part)
        yield f"{part}s", choice.name if choice else getattr(preset, part)


def _domain(section: DomainSection, registry: Registry) -> Iterator[tuple[str, str]]:
    yield "environments", section.environment
    yield "task_sets", section.tasks.rpartition(":")[0]
    if section.action_space is not None:
        yield "action_spaces", section.action_space.name
    yield "judges", section.judge.name
    for name in _nested(section.judge.params):
        yield "judges", name


def _nested(value: Any) -> Iterator[str]:
    """Names in parameters that look like a choice, `{name = "…", params = {…}}`."""
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str):
            yield value["name"]
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _nested(item)
