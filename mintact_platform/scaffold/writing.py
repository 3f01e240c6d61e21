"""Writing a new plugin's distribution: templates filled in, the whole directory or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

from mintact_platform import __version__
from mintact_platform.errors import ConfigurationError
from mintact_platform.scaffold.naming import Names

_COMMON = {"gitignore": ".gitignore"}
_FILES: Mapping[str, Mapping[str, str]] = {
    "environment": {"environment": "$package/environment.py", "tasks": "$package/tasks.py"},
    "judge": {"judge": "$package/judge.py"},
    "objective": {"loss": "$package/loss.py", "trial": "$package/trial.py"},
}
_EVERY = {
    "pyproject": "pyproject.toml",
    "readme": "README.md",
    "run": "run.toml",
    "plugin": "$package/__init__.py",
    "tests": "tests/test_$function.py",
}
KINDS = tuple(_FILES)


class Written(NamedTuple):
    """A distribution that was written.

    Attributes:
        directory: its directory.
        files: below it, sorted.
    """

    directory: Path
    files: tuple[Path, ...]


def write(kind: str, names: Names, parent: Path) -> Written:
    """Write a distribution into a new directory of its name.

    Args:
        kind: one of `KINDS`.
        names: of the plugin.
        parent: where the directory goes; made if it is missing.

    Raises:
        ConfigurationError: the directory is there already.
    """
    directory = parent / names.distribution
    if directory.exists() or directory.is_symlink():
        raise ConfigurationError(
            "is there already", where=str(directory), next="choose another name or --to DIR"
        )
    values = {**names._asdict(), "core": _core_requirement()}
    parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{names.distribution}-", dir=parent))
    try:
        for template, target in _templates(kind).items():
            path = aside / Template(target).substitute(values)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(_read(template)).substitute(values))
        # a directory of mkdtemp is its owner's alone
        aside.chmod(0o755)
        aside.rename(directory)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    written = sorted(p.relative_to(directory) for p in directory.rglob("*") if p.is_file())
    return Written(directory, tuple(written))


def _templates(kind: str) -> dict[str, str]:
    """Target path by template, `kind/name`."""
    own = {**_EVERY, **_FILES[kind]}
    return {
        **{f"common/{name}": target for name, target in _COMMON.items()},
        **{f"{kind}/{name}": target for name, target in own.items()},
    }


def _read(template: str) -> str:
    folder = files("mintact_platform.scaffold") / "templates"
    return (folder / f"{template}.template").read_text()


def _core_requirement() -> str:
    """The core's versions up to the next that may break plugins."""
    major, minor = map(int, __version__.split(".")[:2])
    return f"mintact-platform>={major}.{minor},<{major}.{minor + 1}"
