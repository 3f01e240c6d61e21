"""Which plugin was being imported when a process died: native code crashes without a word."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from mintact_platform.errors import PluginError

_LENGTH = 255
_UNLOCKED = "new-"
_SURVIVED = 93
"""Exit code of a probe whose import came back, with an error or without."""
_PROBE = f"""
import importlib, os, sys
try:
    importlib.import_module(sys.argv[1])
except BaseException:
    pass
os._exit({_SURVIVED})
"""


class Trail:
    """The name of the plugin whose code runs now, in a file that outlives the process.

    The file is locked while its process lives, and removed when discovery ends. One that nobody
    holds was left by a death, and the plugin that it names is a suspect: try it with `probe`
    before it is imported here, and forgive it when that goes well.

    Args:
        directory: where the files lie; None for one in the user's cache.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._suspects: dict[str, list[Path]] = {}
        self._descriptor: int | None = None
        self._path: Path | None = None

    def __enter__(self) -> Self:
        try:
            directory = self._directory or _cache() / "mintact" / "importing"
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._read(directory)
            # others see it once it is locked: until then it looks like one that a death has left
            self._descriptor, name = tempfile.mkstemp(prefix=_UNLOCKED, dir=directory)
            self._path = Path(name)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path = self._path.rename(directory / self._path.name.removeprefix(_UNLOCKED))
        except (OSError, RuntimeError):
            pass  # no home, or none that can be written: there is no memory then
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_suspect(self, name: str) -> bool:
        """Whether a process died while this plugin's code ran."""
        return name in self._suspects

    def enter(self, name: str) -> None:
        """This plugin's code runs from now on."""
        if self._descriptor is not None:
            os.pwrite(self._descriptor, name.encode()[:_LENGTH].ljust(_LENGTH, b"\0"), 0)

    def forgive(self, name: str) -> None:
        """It was not this plugin, or it was mended."""
        for path in self._suspects.pop(name, ()):
            path.unlink(missing_ok=True)

    def _read(self, directory: Path) -> None:
        for path in directory.iterdir():
            if path.name.startswith(_UNLOCKED):
                continue
            try:
                with path.open("rb") as file:
                    # shared: who else looks at it is not its process
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    removed = os.fstat(file.fileno()).st_nlink == 0
                    name = file.read(_LENGTH).rstrip(b"\0").decode(errors="replace")
            except (FileNotFoundError, BlockingIOError):
                continue  # its process has ended well meanwhile, or lives
            if removed:
                continue
            if name:
                self._suspects.setdefault(name, []).append(path)
            else:
                path.unlink(missing_ok=True)


def probe(module: str, seconds: float) -> None:
    """Import a module in a process of its own, which has this one's path.

    Raises:
        PluginError: that process died over it.
    """
    command = [sys.executable, "-c", _PROBE, module]
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return  # it lives; that it hangs is found out by importing it
    if done.returncode != _SURVIVED:
        code = done.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        raise PluginError(f"ends the process that imports it ({how})")


def _cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache"
