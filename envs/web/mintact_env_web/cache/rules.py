"""Rules of a recorded site: which parts of a request change at every visit, and what is stubbed."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.shapes import SHAPES, shape_of
from mintact_platform.errors import ConfigurationError, near_match

VOLATILE = (
    *("_", "t", "ts", "time", "timestamp", "*_ts", "*timestamp*", "now", "cb", "cachebust*"),
    *("cache_buster", "nocache", "rand", "random", "rnd", "nonce", "*_nonce", "sid", "sess"),
    *("session", "session_id", "sessionid", "*session_id", "*sessionid", "jsessionid"),
    *("phpsessid", "csrf*", "_csrf", "*csrf_token", "xsrf*", "*xsrf_token", "authenticity_token"),
    *("request_id", "requestid", "req_id", "correlation_id", "trace_id", "traceid", "span_id"),
    *("client_id", "device_id", "visitor_id", "gclid", "fbclid", "utm_*", "_ga", "_gl"),
)
SECRET = (
    *("password", "passwd", "pwd", "passphrase", "*password", "pin", "otp", "secret"),
    *("client_secret", "access_token", "refresh_token", "id_token", "api_key", "apikey"),
    *("card_number", "cardnumber", "cvv", "cvc"),
)
"""Names of fields whose values are recorded by nobody; as such they can tell no request apart."""
STUBS = (
    *("*.google-analytics.com/*", "www.google.*/ccm/*", "analytics.google.com/*"),
    *("*.googletagmanager.com/*", "*.doubleclick.net/*", "*.facebook.com/tr*"),
    *("connect.facebook.net/*", "*.hotjar.com/*", "*.clarity.ms/*", "bat.bing.com/*"),
    *("*.segment.io/*", "*.segment.com/*", "*.mixpanel.com/*", "*.amplitude.com/*"),
    *("*.sentry.io/*", "*.nr-data.net/*", "*.newrelic.com/*", "*.datadoghq.com/*"),
    *("*.fullstory.com/*", "*.scorecardresearch.com/*", "*.optimizely.com/*"),
    *("*/analytics", "*/analytics/*", "*/telemetry", "*/telemetry/*", "*/beacon", "*/beacon/*"),
    *("*/collect", "*/g/collect", "*/pixel.gif", "*/__utm.gif", "*/csp-report*", "*/rum"),
)
BEACONS = ("ping", "cspviolationreport")
NEAREST = 0.8


@dataclass(frozen=True)
class Rules:
    """What may differ between a recorded request and the one that it answers.

    Attributes:
        volatile: names of query parameters and body fields that tell no request apart; patterns,
            compared in lower case. A field inside JSON also goes by its path, `user.session`.
        shapes: values of these shapes tell no request apart, whatever their name.
        stable: names that always tell requests apart; they win.
        learnt: names that differed between visits, by endpoint (`GET host/path`).
        paths: `host/path` with `*` for segments that differed between visits.
        accept: endpoints (`GET host/path`) whose answer depends on the `Accept` header.
        stubs: patterns of `host/path` that get an empty answer: analytics, telemetry.
        nearest: least score, 0 to 1, at which a similar request answers; above 1 for never.
    """

    volatile: tuple[str, ...] = (*VOLATILE, *SECRET)
    shapes: tuple[str, ...] = SHAPES
    stable: tuple[str, ...] = ()
    learnt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    stubs: tuple[str, ...] = STUBS
    nearest: float = NEAREST

    def ignores(self, endpoint: str, name: str, value: str) -> bool:
        """Whether a parameter tells no request apart.

        Args:
            endpoint: of the request, after `path`.
            name: of the parameter, or the path of a field inside JSON.
            value: as text.
        """
        known = (name, name.rpartition(".")[2])
        if any(matches(n, self.stable) for n in known):
            return False
        if name in self.learnt.get(endpoint, ()):
            return True
        return any(matches(n, self.volatile) for n in known) or shape_of(value) in self.shapes

    def path(self, host: str, path: str) -> str:
        """The path with segments that change at every visit replaced by `*`."""
        own = path.split("/")
        for pattern in self.paths:
            wanted_host, _, rest = pattern.partition("/")
            wanted = ("/" + rest).split("/")
            if wanted_host == host and len(wanted) == len(own):
                if all(w in ("*", o) for w, o in zip(wanted, own, strict=True)):
                    return "/".join(wanted)
        return path

    def stubbed(self, request: Request) -> bool:
        """Whether nothing on the page depends on the answer."""
        parts = urlsplit(request.url)
        place = f"{(parts.hostname or '').lower()}{parts.path or '/'}"
        return request.kind in BEACONS or matches(place, self.stubs)

    def with_learnt(self, found: Mapping[str, set[str]], paths: set[str] = frozenset()) -> Rules:  # type: ignore[assignment]  # an empty set of either kind
        """These rules and what was found by comparing visits."""
        learnt = {
            endpoint: tuple(sorted({*self.learnt.get(endpoint, ()), *found.get(endpoint, ())}))
            for endpoint in sorted({*self.learnt, *found})
        }
        return replace(self, learnt=learnt, paths=tuple(sorted({*self.paths, *paths})))

    def to_toml(self) -> str:
        """Tables `[rules]` and `[rules.learnt]`: only what differs from the defaults."""
        default = Rules()
        lines = ["[rules]"]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "learnt" and value != getattr(default, one.name):
                lines.append(f"{one.name} = {toml_value(value)}")
        lines += ["", "[rules.learnt]"] if self.learnt else []
        lines += [f"{toml_value(k)} = {toml_value(v)}" for k, v in self.learnt.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_json(cls, values: Mapping[str, Any], where: str) -> Rules:
        """Read the table `rules`; what is not given keeps its default.

        Raises:
            ConfigurationError: an unknown key or a value of the wrong type.
        """
        known = {one.name for one in fields(cls)}
        read: dict[str, Any] = {}
        for key, value in values.items():
            if key not in known:
                raise ConfigurationError(
                    f"unknown rule {key!r}", where=where, next=near_match(key, known)
                )
            read[key] = _read(key, value, where)
        return cls(**read)


EXACT = Rules(volatile=(), shapes=(), stubs=())
"""Every part of a request counts."""


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name matches one of the patterns, in lower case.

    Example:
        >>> matches("UTM_Source", ("utm_*",)), matches("q", ("utm_*",))
        (True, False)
    """
    return _matches(name.lower(), patterns)


@lru_cache(4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern.lower()) for pattern in patterns)


def toml_value(value: Any) -> str:
    """A string, number, boolean or list of these in TOML; JSON's spelling is valid TOML."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _read(key: str, value: Any, where: str) -> Any:
    if key == "nearest":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigurationError(f"rule {key!r} must be a number, got {value!r}", where=where)
        return float(value)
    if key == "learnt":
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"rule {key!r} must be a table, got {value!r}", where=where)
        return {name: _names(f"learnt.{name}", names, where) for name, names in value.items()}
    names = _names(key, value, where)
    for shape in names if key == "shapes" else ():
        if shape not in SHAPES:
            raise ConfigurationError(
                f"unknown shape {shape!r}", where=where, next=near_match(shape, SHAPES)
            )
    return names


def _names(key: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ConfigurationError(
            f"rule {key!r} must be a list of strings, got {value!r}", where=where
        )
    return tuple(value)
