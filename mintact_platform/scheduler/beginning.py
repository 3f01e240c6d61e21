"""A run begins, or goes on where it stopped; one that never began leaves its name free."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

from mintact_platform import config as configuration
from mintact_platform.config import RunConfig
from mintact_platform.errors import ConfigurationError, StorageError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.used import accept
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.files import write_aside
from mintact_platform.storage.ledger import get_meta

CHANGEABLE = re.compile(
    r"name|required_plugins|trainer\.(steps|checkpoints_kept)|evaluation\..*|deadlines\..*"
    r"|sft\.(checkpoint_every|gate|gate_episodes|gate_rounds)|rollout\.active|schedule\..*"
    r"|domains\..*\.(instances|servers|python|transport|spares|bearer_env)"
    r"|domains\..*\.judge\.(concurrency|requests_per_minute|retries|cache)"
)
"""Settings a resumed run may change; any other would make its past and future two runs."""


def begin(
    config: RunConfig,
    runs: Path,
    registry: Registry,
    *,
    verb: str,
    resume: bool,
    accept_changed: bool,
    say: Callable[[str], None],
) -> RunDirectory:
    """Create the run's directory, or open it to go on with it; this process holds its lock.

    Args:
        config: the checked run file.
        runs: where runs lie.
        registry: installed plugins.
        verb: which begins it: `train` or `sft`.
        resume: go on with an existing run.
        accept_changed: even though it was started with other versions of its plugins.
        say: prints a line for people.

    Raises:
        StorageError: it exists without `resume`, is missing with it, or another process has it.
        ConfigurationError: it was started by another verb, or with what may not change.
    """
    path = (runs / config.name).absolute()
    if not resume:
        forget_failed_start(path)
        directory = RunDirectory.create(
            path,
            config_toml=configuration.dump(config),
            plugins=registry.versions(),
            metadata={"verb": verb, "seed": str(config.seed)},
        )
    else:
        directory = RunDirectory.open(path, writable=True)
    try:
        if resume:
            _same(directory, config, verb)
        directory.lock()
        if resume:
            for change in accept(directory, config, registry, changes=accept_changed):
                say(f"goes on with {change}")
            write_aside(path / "config.toml", configuration.dump(config).encode())
    except BaseException:
        directory.close()
        raise
    return directory


def forget_failed_start(path: Path) -> None:
    """Remove a run that never got as far as one group or evaluation; its name is free again."""
    if not (path / "run.db").is_file():
        return
    directory = RunDirectory.open(path, writable=True)
    try:
        directory.lock()  # another scheduler may be starting in it right now
        begun = directory.database.read(
            "select (select count(*) from groups) + (select count(*) from evaluations) n"
        )[0]["n"]
        metrics = directory.database.read("select count(*) n from metrics")[0]["n"]
    finally:
        directory.close()
    if not begun and not metrics:
        shutil.rmtree(path)


def _same(directory: RunDirectory, config: RunConfig, verb: str) -> None:
    began = get_meta(directory.database, "verb")
    if began != verb:
        raise ConfigurationError(
            f"the run was begun by mintact {began}, not {verb}",
            where=str(directory.path),
            next="give the new run another name",
        )
    try:
        recorded = tomllib.loads(directory.config_toml)
    except (OSError, ValueError) as error:
        place = str(directory.path / "config.toml")
        raise StorageError(f"cannot be read ({error})", where=place) from None
    before = _flat(configuration.parse(recorded, where="config.toml").model_dump(mode="json"))
    now = _flat(config.model_dump(mode="json"))
    changed = [
        key
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and not CHANGEABLE.fullmatch(key)
    ]
    if changed:
        raise ConfigurationError(
            f"the run was started with another {', '.join(changed[:3])}",
            where=str(directory.path),
            next="resume with the same settings, or give the new run another name",
        )


def _flat(values: object, prefix: str = "") -> dict[str, str]:
    if not isinstance(values, dict) or not values:
        return {prefix.rstrip("."): json.dumps(values, sort_keys=True)}
    flat: dict[str, str] = {}
    for key, value in values.items():
        flat.update(_flat(value, f"{prefix}{key}."))
    return flat
