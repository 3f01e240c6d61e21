"""Where the endpoint is and which key opens it; no secret ever comes from a run file."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from mintact_platform.errors import ConfigurationError

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


class Access(NamedTuple):
    """How to reach an endpoint.

    Attributes:
        url: up to and including the version, `https://host/v1`.
        key: "" for none.
    """

    url: str
    key: str

    def safe(self, text: str) -> str:
        """The text without the key, should an endpoint repeat it."""
        return text.replace(self.key, "…") if self.key else text


def access(base_url: str, api_key_env: str | None) -> Access:
    """Check both.

    Raises:
        ConfigurationError: no URL, a secret in it, a key where a variable's name belongs, or a
            variable that holds none. No message repeats what might be a key.
    """
    return Access(_url(base_url), _key(api_key_env))


def _url(text: str) -> str:
    where = "rollout.params.base_url"
    try:
        parts = urlsplit(text)
        host, secret = parts.hostname, parts.username or parts.password
    except ValueError:
        host = secret = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigurationError("not a URL", where=where, next="write https://host/v1")
    if secret or parts.query or parts.fragment:
        raise ConfigurationError(
            "a URL with a password or a query in it would be recorded with the run",
            where=where,
            next="put the key into an environment variable and name it in api_key_env",
        )
    return text.rstrip("/")


def _key(variable: str | None) -> str:
    where = "rollout.params.api_key_env"
    if variable is None:
        return ""
    if not _VARIABLE.fullmatch(variable):
        raise ConfigurationError(
            "not the name of an environment variable in capital letters",
            where=where,
            next="export TEACHER_KEY=… and write api_key_env = 'TEACHER_KEY', never the key itself",
        )
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            f"the environment variable {variable!r} holds no key",
            where=where,
            next=f"export {variable}=… before the run, or leave api_key_env out",
        )
    return key
