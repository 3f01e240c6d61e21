"""A server's address in the one spelling that its clients use."""

from __future__ import annotations


def address_of(url: str) -> str:
    """The address with its scheme in small letters and no slash at its end.

    Example:
        >>> address_of("HTTP://host:8700/")
        'http://host:8700'
    """
    scheme, separator, rest = url.partition("://")
    return f"{scheme.lower()}{separator}{rest}".rstrip("/")
