"""Tiny real distributions, written to a folder that a fresh interpreter has on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


class Site:
    """A folder of distributions, and fresh interpreters that see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"

    def install(self, name: str, code: str, *, version: str = "1.0", requires: str = "") -> None:
        module = name.replace("-", "_")
        (self.folder / f"{module}.py").write_text(textwrap.dedent(code))
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir()
        need = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{need}"
        )
        (info / "entry_points.txt").write_text(f"[mintact]\nmain = {module}\n")

    def python(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=self.folder,
            env={**self._environ(), **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def command(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """The command line in a fresh interpreter."""
        call = f"from mintact_platform.cli.main import main; raise SystemExit(main({words!r}))"
        return self.python(call, **environ)

    def _environ(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(self.cache)}
        return {**os.environ, **own}

    def rows(self, **environ: str) -> dict[str, dict[str, object]]:
        """`mintact plugins --json`, by distribution."""
        command = "from mintact_platform.cli.main import main; main(['plugins', '--json'])"
        result = self.python(command, **environ)
        assert result.returncode == 0, result.stderr
        return {row["distribution"]: row for row in json.loads(result.stdout)}

    def ask(self, kind: str, name: str, **environ: str) -> str:
        """The repr of the target of that name, or the error's text."""
        result = self.python(
            f"""
            from mintact_platform.errors import MintactError
            from mintact_platform.registry.names import Registry
            try:
                print(Registry.discover().get({kind!r}, {name!r}))
            except MintactError as error:
                print(f"{{type(error).__name__}}: {{error}}")
            """,
            **environ,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One for all tests of a file, which must not change what is in it."""
    return Site(tmp_path_factory.mktemp("site"))
