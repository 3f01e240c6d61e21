"""What a page may reach: schemes, hosts, addresses. Pure decisions, carried out by the proxy."""

from __future__ import annotations

import fnmatch
import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

WEB_SCHEMES = ("http", "https")
ERROR_PAGE = "chrome-error:"
"""Scheme of the browser's own page that says why another one did not load."""
_HARMLESS = ("about:blank", "about:srcdoc")


@dataclass(frozen=True)
class Policy:
    """Which hosts the open network reaches.

    Attributes:
        hosts: patterns such as `*.example.com`; empty for every public host.
        private: `host:port` pairs that may be reached though their address is private.
    """

    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def allows_host(self, host: str) -> bool:
        """Whether the host's name is on the list."""
        name = host.lower().rstrip(".")
        return not self.hosts or any(fnmatch.fnmatchcase(name, p.lower()) for p in self.hosts)

    def allows_address(self, host: str, port: int, address: str) -> bool:
        """Whether a connection for `host:port` may go to this address."""
        return f"{host.lower()}:{port}" in self.private or is_public(address)


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the internet at large.

    Example:
        >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("169.254.169.254")
        (True, False, False)
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    if inner is not None and not inner.is_global:
        return False
    return ip.is_global and not ip.is_multicast


def refusal(url: str) -> str | None:
    """Why a tab may not show this URL, None when it may.

    Example:
        >>> refusal("https://example.com/"), refusal("file:///etc/passwd")
        (None, "'file:' pages are refused")
    """
    if url in _HARMLESS or not url or url.startswith(ERROR_PAGE):
        return None
    scheme = url.partition(":")[0].lower()
    if scheme == "blob":
        return refusal(url.partition(":")[2])
    if scheme not in WEB_SCHEMES:
        return f"'{scheme}:' pages are refused"
    if not urlsplit(url).hostname:
        return "a page without a host is refused"
    return None
