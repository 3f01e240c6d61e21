"""What an environment is that is not installed here: its servers are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from mintact_platform.environments.client.address import address_of
from mintact_platform.environments.protocol import wire
from mintact_platform.errors import ConfigurationError

_CONNECT = 5.0


def described_at(
    servers: Sequence[str],
    name: str,
    *,
    python: str | None = None,
    bearer: str | None = None,
    deadline: float = 60.0,
) -> dict[str, Any]:
    """The full description by the first server that serves the environment.

    Args:
        servers: URLs, asked in order.
        name: of the environment.
        python: interpreter of its workers, None for the server's own.
        bearer: token of the servers.
        deadline: seconds for each; the server may have to import the environment first.

    Raises:
        ConfigurationError: saying what each of them answered.
    """
    reasons = []
    timeout = httpx.Timeout(deadline, connect=min(_CONNECT, deadline))
    with httpx.Client(timeout=timeout, trust_env=False) as client:
        for url in servers:
            try:
                return _ask(client, address_of(url), name, python, bearer)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reasons.append(f"{url}: {type(error).__name__} {error}".rstrip(": "))
            except (wire.WireError, LookupError, TypeError) as error:
                reasons.append(f"{url}: {error}")
    raise ConfigurationError(
        f"environment {name!r} is not installed here, and no server describes it",
        where="; ".join(reasons) or "no server",
        next=f"serve it with `mintact serve {name}`",
    )


def _ask(
    client: httpx.Client, url: str, name: str, python: str | None, bearer: str | None
) -> dict[str, Any]:
    """One server's description.

    Raises:
        LookupError: it refuses, and why.
    """
    headers = {"accept": wire.JSON, wire.PROTOCOL_HEADER: str(wire.PROTOCOL)}
    if bearer:
        headers["authorization"] = f"Bearer {bearer}"
    query = {"name": name} if python is None else {"name": name, "python": python}
    reply = client.get(f"{url}/v1/environments", params=query, headers=headers)
    if reply.status_code >= 400:
        try:
            why = wire.ErrorBody.unpack(reply.json()).message
        except (ValueError, wire.WireError):
            why = f"HTTP {reply.status_code}"
        hint = "; name its bearer token in bearer_env" if reply.status_code == 401 else ""
        raise LookupError(f"{why}{hint}")
    described: dict[str, Any] = wire.loads(reply.content, wire.JSON)["environments"][name]
    return dict(described)
