"""Whole runs on websites, with a tiny model and the run file of the documentation."""

import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

MODULES = Path(__file__).parent / "modules"
PAGE = Path(__file__).parents[4] / "docs" / "web.md"


@dataclass
class Commands:
    """The command line in a directory of its own, where a tiny model and `run.toml` lie."""

    directory: Path

    def __call__(self, *words, timeout=400):
        """Run a command to its end; what it printed."""
        path = os.pathsep.join(filter(None, (str(MODULES), os.environ.get("PYTHONPATH", ""))))
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.directory,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def rows(self, sql):
        """Rows of the run's database."""
        connection = sqlite3.connect(f"file:{self.directory}/runs/web/run.db?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql)]
        finally:
            connection.close()


@pytest.fixture
def commands(tmp_path):
    command = Commands(tmp_path)
    command("mintact_plugin_torch.warmstart.tiny", "--out", "tiny")
    (tmp_path / "run.toml").write_text(documented_run())
    return command


def documented_run():
    """The page's first run file."""
    return re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
