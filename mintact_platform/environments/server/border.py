"""What must not come into an environment server, over HTTP as over the stream."""

from __future__ import annotations

import hmac

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.leases import Refusal


class Border:
    """Looks at a request's headers before anything else does.

    Args:
        bearer: token every call but `/healthz` must carry, None for none.
    """

    def __init__(self, bearer: str | None = None) -> None:
        self._bearer = None if bearer is None else f"Bearer {bearer}".encode()

    def refusal(self, path: str, *, protocol: str, authorisation: bytes) -> Refusal | None:
        """Why the request may not come in: another protocol (426) or no bearer token (401).

        Args:
            path: of the request.
            protocol: its `Mintact-Protocol` header, "" for none.
            authorisation: its `Authorization` header.
        """
        if protocol not in ("", str(wire.PROTOCOL)):
            message = f"this server speaks protocol {wire.PROTOCOL}, not {protocol}"
            return Refusal(426, ErrorBody("protocol", "create", message, False))
        if self._bearer is None or path == "/healthz":
            return None
        if not hmac.compare_digest(authorisation, self._bearer):
            return Refusal(401, ErrorBody("unauthorised", "create", "no bearer token", False))
        return None
