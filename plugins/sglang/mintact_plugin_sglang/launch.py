"""Starts servers of others as children: on explicit loopback ports, ended with their parent."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mintact_platform import processes
from mintact_platform.errors import ConfigurationError, MintactError

HOST = "127.0.0.1"
_TRIES = 3
_LOWEST_PORT = 10240
# titles of processes must not be written over their environment, which carries their mark
_ENVIRONMENT = {"SPT_NOENV": "1"}

Arguments = Mapping[str, str | int | float | bool]
"""Options of a command line by name, with or without hyphens; True is a flag, False leaves out."""


async def launch(
    command: Callable[[Sequence[int]], Sequence[str]],
    *,
    ports: int,
    probe: str,
    log: Path,
    mark: str,
    deadline: float,
    environ: Mapping[str, str] | None = None,
) -> processes.Child:
    """Start a server under a guard and wait until it answers.

    Args:
        command: its command line, for free ports of this host; it serves HTTP on the first.
        ports: how many it needs.
        probe: the route that answers 200 once it is ready.
        log: file for its output.
        mark: of its processes; no living child may share it.
        deadline: seconds until it must be ready.
        environ: added to this process's environment.

    Returns:
        The guard; `ready["url"]` is the server's address.

    Raises:
        MintactError: it ended or was not ready in time; the text ends with its last lines.
    """
    for last in (False,) * (_TRIES - 1) + (True,):
        chosen = free_ports(ports)
        url = f"http://{HOST}:{chosen[0]}"
        spec = {"command": list(command(chosen)), "probe": url + probe, "ready": {"url": url}}
        try:
            return await processes.spawn(
                [sys.executable, "-m", "mintact_plugin_sglang.guard"],
                spec,
                log=log,
                mark=mark,
                deadline=deadline,
                environ={**_ENVIRONMENT, **(environ or {})},
                keeps_tree=True,
            )
        except MintactError:
            # another process took a port between our look and the server's
            if last or "ddress already in use" not in processes.tail(log, 40):
                raise
    raise AssertionError("the last try returns or raises")


def options(arguments: Arguments) -> list[str]:
    """Command-line words of options.

    Example:
        >>> options({"tp_size": 2, "enable-metrics": True, "trust-remote-code": False})
        ['--tp-size', '2', '--enable-metrics']
    """
    words: list[str] = []
    for name, value in arguments.items():
        if value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


def hyphened(arguments: Arguments) -> dict[str, str | int | float | bool]:
    """The same options, all named with hyphens."""
    return {name.replace("_", "-"): value for name, value in arguments.items()}


def refuse(arguments: Arguments, ours: Sequence[str], *, where: str, chosen: str) -> None:
    """Refuse options that the engine sets itself.

    Args:
        arguments: what the run file gives.
        ours: names, with hyphens.
        where: the key of the run file.
        chosen: what the engine chooses, in words.

    Raises:
        ConfigurationError: naming the first one.
    """
    for name in hyphened(arguments):
        if name in ours:
            raise ConfigurationError(
                f"{name!r} is not yours to set",
                where=where,
                next=f"{chosen} are chosen by the engine",
            )


def free_ports(count: int) -> list[int]:
    """Different ports of this host that nobody listens on at present.

    They lie below those that the kernel gives to connections: some servers listen only after a
    minute of loading, and until then no connection may take the port.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(_LOWEST_PORT, _first_ephemeral())
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            if port not in ports:
                ports.append(port)
    return ports


def _first_ephemeral() -> int:
    with contextlib.suppress(OSError, ValueError):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        return max(first, _LOWEST_PORT + 1000)
    return 32768
