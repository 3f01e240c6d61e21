"""The key of a request: equal for requests that the same recorded response answers. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.fields import Pair, body_fields, digest, query_fields
from mintact_env_web.cache.rules import Rules

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_PLAIN = ":@!$&'()*+,;=~"


class Key(NamedTuple):
    """What tells one request from another.

    Attributes:
        method: in capitals.
        place: scheme, host, port where it is unusual, and path.
        query: parameters that count, sorted.
        body: fields that count, sorted; the hash of a body without fields; "" for none.
        headers: values of `accept` and `range` where they count.
    """

    method: str
    place: str
    query: tuple[Pair, ...] = ()
    body: tuple[Pair, ...] | str = ""
    headers: tuple[Pair, ...] = ()


def key_of(request: Request, rules: Rules) -> Key:
    """The key of a request under a site's rules.

    Example:
        >>> a = Request("GET", "http://Site.test:80/find?q=tea&_=1&page=2")
        >>> b = Request("GET", "http://site.test/find?page=2&q=tea&_=2#top")
        >>> key_of(a, Rules()) == key_of(b, Rules())
        True
    """
    host, place, path = _place(request.url, rules)
    endpoint = f"{request.method} {host}{path}"
    query = _counting(query_fields(request.url), endpoint, rules)
    pairs = body_fields(request)
    if pairs is None:
        body: tuple[Pair, ...] | str = digest(request.body or b"")
    else:
        body = _counting(pairs, endpoint, rules) or ""
    return Key(request.method, place, query, body, _headers(request, endpoint, rules))


def endpoint_of(request: Request, rules: Rules) -> str:
    """`METHOD host/path` under the rules: what learnt names are listed under."""
    host, _, path = _place(request.url, rules)
    return f"{request.method} {host}{path}"


def _place(url: str, rules: Rules) -> tuple[str, str, str]:
    """Host with port, the whole up to the query, and the path."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if parts.port is not None and parts.port != _PORTS.get(parts.scheme):
        host = f"{host}:{parts.port}"
    # %7E and ~ are the same, and so are %2f and %2F; %2F and / are not
    segments = (parts.path or "/").split("/")
    path = "/".join(quote(unquote(s), safe=_PLAIN) for s in segments)
    path = rules.path(host, path)
    return host, f"{parts.scheme}://{host}{path}", path


def _counting(pairs: list[Pair], endpoint: str, rules: Rules) -> tuple[Pair, ...]:
    return tuple(sorted((n, v) for n, v in pairs if not rules.ignores(endpoint, n, v)))


def _headers(request: Request, endpoint: str, rules: Rules) -> tuple[Pair, ...]:
    names = ["range"] if "range" in request.headers else []
    if endpoint in rules.accept:
        names.insert(0, "accept")
    return tuple((name, request.headers.get(name, "")) for name in names)
