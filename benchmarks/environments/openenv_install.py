"""A virtual environment with `openenv-core`, made once under `.bench/` and kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"
REQUIREMENTS = ("openenv-core==0.3.0", "psutil>=6", "pillow>=10")


class CannotInstall(Exception):
    """The virtual environment could not be made; the text is what the tool said."""


def python(cache: Path = CACHE) -> Path:
    """The interpreter in which `openenv-core` can be imported; installs it when need be.

    Raises:
        CannotInstall: with pip's own last lines.
    """
    folder = cache / "openenv"
    interpreter, done = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if not done.exists() or done.read_text() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        options = ("--quiet", "--disable-pip-version-check", "--no-input")
        _run(str(interpreter), "-m", "pip", "install", *options, *REQUIREMENTS)
        done.write_text(wanted)
    return interpreter


def _run(*command: str) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(str(error)) from error
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        errors = [line for line in said if "ERROR" in line] or said
        raise CannotInstall("\n".join(errors[-5:]) or f"ended with code {ended.returncode}")
