"""Addresses and API keys of servers that others started."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from mintact_platform.errors import ConfigurationError


def base_url(url: str, *, where: str) -> str:
    """The base URL of a server, without a slash at its end.

    Raises:
        ConfigurationError: it is none; an address that holds a secret is not repeated.
    """
    advice = "write it as http://host:port"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{url!r} is no address", where=where, next=advice) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "an address holds no user and no password",
            where=where,
            next="name an environment variable with the key in api_key_env",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigurationError(f"{url!r} is no address of a server", where=where, next=advice)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigurationError(f"{url!r} is more than an address", where=where, next=advice)
    return f"{parts.scheme}://{parts.netloc}"


def is_loopback(url: str) -> bool:
    """Whether a server is on this host for sure."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def api_key(variable: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The API key that an environment variable holds; None where no variable is named.

    Raises:
        ConfigurationError: the name is none, or the variable is not set. What was given for a
            name is not repeated: it may be the key itself.
    """
    if variable is None:
        return None
    where = "rollout.params.api_key_env"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise ConfigurationError(
            "that is no name of an environment variable",
            where=where,
            next="a run file never holds the key itself: export it, and name the variable here",
        )
    key = environ.get(variable, "").strip()
    if not key:
        # of what looks like a name, only one in capitals is safe to repeat
        name = variable if variable.isupper() else "the variable"
        raise ConfigurationError(f"{name} is not set", where=where, next="export the key there")
    return key
