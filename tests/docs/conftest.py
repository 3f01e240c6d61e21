"""The manual as tests: its pages, their code blocks, and the environment a new user has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FAMILIES = ("envs", "rewards", "algorithms", "plugins")
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted(path for family in FAMILIES for path in ROOT.glob(f"{family}/*/README.md")),
)
INSTALLED = (".", "envs/micro", "rewards/state", "algorithms/grpo", "plugins/torch")
"""What `pip install "mintact-platform[quickstart]"` brings."""

_FENCE = re.compile(r"^( *)```(\w*).*$")
_MARKER = re.compile(r"^ *<!-- not run: (.+?) *-->$")
_ITEM = re.compile(r"^ *([-*+]|\d+\.|!!!|\?\?\?|===|:::) ")


@dataclass(frozen=True)
class Block:
    """A fenced block, the line where it begins, and why it is not run, where it is not."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read_blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order; an indented one is an error, for nothing checks it."""
    found: list[Block] = []
    opened: tuple[int, str, str] | None = None
    body: list[str] = []
    before = marker = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened, body, marker = (number, fence[1], fence[2]), [], before
        elif opened and line.rstrip() == f"{opened[1]}```":
            why = _MARKER.match(marker)
            text = "\n".join(row.removeprefix(opened[1]) for row in body) + "\n"
            found.append(Block(page, opened[0], opened[2], text, why[1] if why else None))
            opened, before = None, ""
        elif opened:
            body.append(line)
        else:
            indented = line.startswith("    ") and not before.startswith("    ")
            assert not indented or _ITEM.match(before), f"{page}:{number}: fence this code"
            before = line if line.strip() else before
    assert opened is None, f"{page}: a fence is not closed"
    return found


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        names = [str(path.relative_to(ROOT)) for path in PAGES]
        metafunc.parametrize("page", PAGES, ids=names)


@pytest.fixture
def blocks(page) -> list[Block]:
    return read_blocks(page)


@pytest.fixture
def blocks_of():
    """The blocks of a page of the manual, by its path under docs/."""
    return lambda name: read_blocks(DOCS / name)


@dataclass(frozen=True)
class User:
    """Someone who installed the platform and knows nothing of the checkout."""

    environment: Path
    wheels: Path

    def run(self, script: str, *, cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run shell commands, stopping at the first that fails."""
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        path = os.pathsep.join((str(self.environment / "bin"), os.environ["PATH"]))
        offline = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for "no isolation"
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        return subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=cwd,
            env={**kept, **offline, "PATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )


@pytest.fixture
def user(wheels, tmp_path) -> User:
    """A fresh environment with our wheels; their dependencies come from this interpreter."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    pip(
        "--python", folder / "bin/python", "install", "--no-deps", "--no-index",
        *wheels.glob("*.whl"),
    )  # fmt: skip
    (site,) = folder.glob("lib/python*/site-packages")
    # a path file adds a folder without reading the path files in it: editable installs stay out
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = folder / "bin" / "pip"
    command.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m pip "$@"\n')
    command.chmod(0o755)
    return User(folder, wheels)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> Path:
    """Wheels of what a user installs, built from copies of the checkout."""
    folder, copies = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".*")
    for number, name in enumerate(INSTALLED):
        target = copies / str(number)
        if name == ".":
            target.mkdir()
            shutil.copytree(ROOT / "mintact_platform", target / "mintact_platform", ignore=ignored)
            for file in ("pyproject.toml", "README.md"):
                shutil.copy(ROOT / file, target / file)
        else:
            shutil.copytree(ROOT / name, target, ignore=ignored)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *copies.iterdir())
    return folder


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
