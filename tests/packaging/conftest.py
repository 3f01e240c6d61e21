"""Wheels of every distribution, built from copies and installed outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".*")


@dataclass(frozen=True)
class Installed:
    """An environment that has our wheels, and nothing else of the checkout."""

    folder: Path
    wheels: tuple[Path, ...]

    def run(
        self, *command: str, cwd: Path, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def install(self, *wheels: Path) -> None:
        """Add wheels, and nothing that they depend on."""
        python = self.folder / "bin/python"
        _pip("--python", python, "install", "--no-deps", "--no-index", *wheels)


def projects() -> list[Path]:
    """Every first-party distribution, the core first."""
    families = ("envs", "rewards", "algorithms", "plugins")
    return [ROOT, *(p.parent for f in families for p in sorted(ROOT.glob(f"{f}/*/pyproject.toml")))]


def copy(project: Path, target: Path) -> Path:
    """The files a build of the project reads, so that nothing is written into the checkout."""
    if project == ROOT:
        target.mkdir()
        shutil.copytree(ROOT / "mintact_platform", target / "mintact_platform", ignore=IGNORED)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, target / name)
        return target
    return shutil.copytree(project, target, ignore=IGNORED)


@pytest.fixture(scope="session")
def wheels(once, tmp_path_factory) -> tuple[Path, ...]:
    sources = tmp_path_factory.mktemp("sources")
    third_party = [ROOT / "tests/third_party" / name for name in ("acme_counter", "acme_cispo")]

    def build(folder: Path) -> None:
        copies = [copy(p, sources / str(i)) for i, p in enumerate([*projects(), *third_party])]
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *copies)

    return tuple(sorted(once("wheels", build).glob("*.whl")))


@pytest.fixture(scope="session")
def installed(wheels, once) -> Installed:
    """A fresh environment that the tests share and leave as it is."""
    return Installed(once("fresh", lambda folder: _fresh(folder / "venv", wheels)) / "venv", wheels)


@pytest.fixture(scope="module")
def own(wheels, tmp_path_factory) -> Installed:
    """A fresh environment of a module's own, to install more into."""
    return _fresh(tmp_path_factory.mktemp("own") / "venv", wheels)


@pytest.fixture(scope="session")
def build():
    """Build wheels of projects into a folder; building writes into the projects."""

    def build(folder: Path, *projects: Path) -> tuple[Path, ...]:
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *projects)
        return tuple(sorted(folder.glob("*.whl")))

    return build


def _fresh(folder: Path, wheels: tuple[Path, ...]) -> Installed:
    """Our wheels, and the dependencies of this interpreter by a path file.

    A path file adds a folder without reading the path files in it, so that the editable installs
    of the checkout stay out.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    environment = Installed(folder, wheels)
    environment.install(*wheels)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
