"""How a server is reached: a program that is started, or an address."""

from __future__ import annotations

import os
import shutil
import string
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mintact_platform import processes
from mintact_platform.errors import ConfigurationError, near_match

_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "TZ",
    "TMPDIR",
    processes.MARK,
)
"""Variables a program gets without being named: what programs need to run, and the mark by which
whatever it leaves behind is found. Nothing else of this process, where secrets may stand."""


class Server(BaseModel):
    """One server, reached in one of two ways.

    Attributes:
        command: program that speaks on standard input and output.
        args: its arguments.
        env: its variables besides the few that every program gets.
        cwd: its working directory; None is an empty one, new in every episode.
        url: of a server that speaks streamable HTTP.
        headers: sent with every request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def place(self) -> str:
        """The server in a word, for errors."""
        return self.url or f"{self.command}"


def read_server(values: Mapping[str, Any], name: str) -> Server:
    """A server from parameters, its `${NAME}` filled in from this process's variables.

    Raises:
        ConfigurationError: neither or both ways, an unknown key, a missing program or variable.
    """
    where = f"mcp server {name!r}"
    try:
        server = Server(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        hint = near_match(key, Server.model_fields) if first["type"] == "extra_forbidden" else ""
        raise ConfigurationError(f"{key}: {first['msg'].lower()}", where=where, next=hint) from None
    if (server.command is None) == (server.url is None):
        raise ConfigurationError(
            "is reached by 'command' or by 'url'", where=where, next="give one of them"
        )
    if server.command is not None and shutil.which(server.command) is None:
        raise ConfigurationError(
            f"no program {server.command!r}", where=where, next="install it, or give its full path"
        )
    return server.model_copy(
        update={"env": _filled(server.env, where), "headers": _filled(server.headers, where)}
    )


def read_servers(
    one: Mapping[str, Any], several: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, Server]:
    """The servers by name; a single one is called `mcp`.

    Raises:
        ConfigurationError: both were given, or one is wrong.
    """
    given = {key: value for key, value in one.items() if value}
    if several is None:
        return {"mcp": read_server(given, "mcp")}
    if given:
        raise ConfigurationError(
            f"both 'servers' and {', '.join(map(repr, given))}", where="mcp/tools", next="give one"
        )
    if not several:
        raise ConfigurationError("no server is named", where="mcp/tools", next="fill in 'servers'")
    return {name: read_server(values, name) for name, values in several.items()}


def variables(server: Server) -> dict[str, str]:
    """The whole environment of a server's program."""
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith("LC_")
    }
    return {**passed_on, **server.env}


def _filled(values: Mapping[str, str], where: str) -> dict[str, str]:
    try:
        return {k: string.Template(v).substitute(os.environ) for k, v in values.items()}
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"cannot fill in {error}", where=where, next="set the environment variable it names"
        ) from None
