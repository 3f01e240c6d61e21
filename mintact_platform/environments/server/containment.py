"""How far a worker is closed in on this machine, and the command that closes it in."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from mintact_platform.environments.worker import shim
from mintact_platform.errors import ConfigurationError, near_match

Mode = Literal["auto", "namespace", "none"]
Isolation = Literal["namespace", "bubblewrap", "none"]
VARIABLE = "MINTACT_CONTAINMENT"
"""Environment variable with the mode of servers that are not told one."""
LIMITS = ("memory_mb", "cpus", "open_files", "file_mb", "disk_mb", "processes")
INSTALL = "apt-get install bubblewrap, or allow unprivileged user namespaces"
_PROBE_DEADLINE = 20


@dataclass
class Containment:
    """What every worker of a server is closed in by.

    Attributes:
        isolation: how processes are kept together, see `isolation`.
        limits: the operator's, an upper bound for what an environment asks for.
    """

    isolation: Isolation = "none"
    limits: Mapping[str, float] = field(default_factory=dict)
    _cores: itertools.count[int] = field(default_factory=itertools.count)

    def allowed(self, wanted: Mapping[str, Any], where: str) -> dict[str, float]:
        """An environment's own limits, none wider than the operator's.

        Raises:
            ConfigurationError: an unknown limit, or one that is no positive number.
        """
        own = read_limits(wanted, where)
        names = own.keys() | self.limits.keys()
        every = {name: [*_given(own, name), *_given(self.limits, name)] for name in names}
        return {name: min(values) for name, values in sorted(every.items())}

    def command(self, python: str, directory: Path, limits: Mapping[str, float]) -> list[str]:
        """The command line of a worker; `environ` belongs to it."""
        plain = [python, "-m", "mintact_platform.environments.worker.shim"]
        if self.isolation == "bubblewrap":
            return [*_bubblewrap(directory, limits.get("disk_mb")), *plain]
        return plain

    def environ(self, directory: Path, limits: Mapping[str, float]) -> dict[str, str]:
        """Variables of a worker; each call spreads the next worker over other cores."""
        spec = {
            "isolation": self.isolation,
            "directory": str(directory),
            "limits": dict(limits),
            "cores": self._next_cores(limits.get("cpus")),
        }
        return {shim.VARIABLE: json.dumps(spec)}

    def bounds_disk(self) -> bool:
        """Whether `disk_mb` is a file system of that size; else the server has to look."""
        return self.isolation != "none"

    def _next_cores(self, cpus: float | None) -> list[int] | None:
        if cpus is None:
            return None
        cores = sorted(os.sched_getaffinity(0))
        wanted = min(len(cores), max(1, math.ceil(cpus)))
        return sorted(cores[next(self._cores) % len(cores)] for _ in range(wanted))


def read_limits(values: Mapping[str, Any], where: str) -> dict[str, float]:
    """Check limits of a worker.

    Raises:
        ConfigurationError: an unknown name, or a value that is no positive number.
    """
    for name, value in values.items():
        if name not in LIMITS:
            raise ConfigurationError(
                f"unknown limit {name!r}", where=where, next=near_match(name, LIMITS)
            )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise ConfigurationError(
                f"limit {name!r} must be a positive number, not {value!r}", where=where
            )
    return {name: float(value) for name, value in values.items()}


def choose(mode: Mode | None) -> Isolation:
    """The isolation a server uses; `None` asks the variable, then is `auto`.

    Raises:
        ConfigurationError: an unknown mode, or `namespace` where this machine refuses it.
    """
    chosen = mode or os.environ.get(VARIABLE) or "auto"
    if chosen not in get_args(Mode):
        near = near_match(chosen, get_args(Mode))
        raise ConfigurationError(f"unknown containment {chosen!r}", where=VARIABLE, next=near)
    if chosen == "none":
        return "none"
    found = isolation()
    if chosen == "namespace" and found == "none":
        raise ConfigurationError(
            "no process namespaces on this machine", where="containment", next=INSTALL
        )
    return found


def isolation() -> Isolation:
    """The best isolation that works here.

    `namespace` asks the kernel, as root or with a user namespace; `bubblewrap` may be allowed
    where that is refused.
    """
    return next(each for each in get_args(Isolation) if works(each))


@functools.cache
def works(wanted: Isolation) -> bool:
    """Whether an isolation can be had on this machine; tried once a process."""
    if wanted == "none":
        return True
    if wanted == "namespace":
        return _succeeds(
            [sys.executable, "-m", "mintact_platform.environments.worker.shim", "probe"]
        )
    return shutil.which("bwrap") is not None and _succeeds([*_bubblewrap(None, None), "true"])


def _succeeds(command: Sequence[str]) -> bool:
    environ = {**os.environ, shim.VARIABLE: json.dumps({"isolation": "namespace"})}
    try:
        run = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_DEADLINE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0


def _bubblewrap(directory: Path | None, disk_mb: float | None) -> list[str]:
    command = ["bwrap", "--die-with-parent", "--unshare-pid"]
    # its own init tells of the worker's end before the rest of the namespace has ended
    command += ["--as-pid-1", "--dev-bind", "/", "/"]
    command += ["--proc", "/proc", "--perms", "1777", "--tmpfs", "/dev/shm"]
    if directory is not None and disk_mb is not None:
        command += ["--size", str(int(disk_mb * 2**20)), "--tmpfs", str(directory)]
    return command


def _given(limits: Mapping[str, float], name: str) -> list[float]:
    return [limits[name]] if name in limits else []
