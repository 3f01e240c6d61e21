"""Checks of tasks on recorded sites: what was answered, asked for, or shown in the end. Pure.

A check is an object with one or more of these keys; all must hold:

    {"answer": "19.99"}                  the answer contains this text, or all of a list of texts
    {"url": "/orders/[0-9]+$"}           the tab's URL matches this regular expression
    {"text": "Thank you"}                the page shows this text, or all of a list of texts
    {"request": {"method": "POST", "url": "/cart$", "body": {"item": "tea"}}}
                                         such a request was made; `body` names some of its fields
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.fields import body_fields
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.verdict import StateCheck

KEYS = ("answer", "url", "text", "request")
_REQUEST_KEYS = ("method", "url", "body")


def judge(
    wanted: Mapping[str, Any],
    *,
    answer: str | None,
    url: str,
    requests: Sequence[Request],
    text: str,
) -> StateCheck:
    """Whether a check holds.

    Args:
        wanted: see the module.
        answer: what the agent said when it stopped.
        url: of the current tab.
        requests: all that the episode made.
        text: that the current tab shows.
    """
    held: dict[str, bool] = {}
    if "answer" in wanted:
        held["answer"] = _contains(answer or "", wanted["answer"])
    if "url" in wanted:
        held["url"] = re.search(wanted["url"], url) is not None
    if "text" in wanted:
        held["text"] = _contains(text, wanted["text"])
    if "request" in wanted:
        held["request"] = any(_is_such(request, wanted["request"]) for request in requests)
    success = bool(held) and all(held.values())
    return StateCheck(success, float(success), {"holds": held})


def validate_check(check: object, where: str) -> None:
    """Refuse what is no check.

    Raises:
        ConfigurationError: names the key, and what was probably meant.
    """
    if not isinstance(check, Mapping) or not check:
        raise ConfigurationError(f"a check must be an object, got {check!r}", where=where)
    _known(check, KEYS, where)
    request = check.get("request", {})
    if not isinstance(request, Mapping):
        raise ConfigurationError(f"'request' must be an object, got {request!r}", where=where)
    _known(request, _REQUEST_KEYS, where)
    for pattern in (check.get("url", ""), request.get("url", "")):
        try:
            re.compile(pattern)
        except (re.error, TypeError):
            raise ConfigurationError(
                f"'url' must be a regular expression, got {pattern!r}", where=where
            ) from None


def _known(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in values:
        if key not in known:
            raise ConfigurationError(
                f"unknown key {key!r} in a check", where=where, next=near_match(key, known)
            )


def _contains(text: str, wanted: str | Sequence[str]) -> bool:
    """Whether the text has all that is wanted; case and spacing do not count."""
    parts = [wanted] if isinstance(wanted, str) else wanted
    plain = _plain(text)
    return all(_plain(part) in plain for part in parts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_such(request: Request, wanted: Mapping[str, Any]) -> bool:
    if request.method != wanted.get("method", request.method).upper():
        return False
    if re.search(wanted.get("url", ""), request.url) is None:
        return False
    fields = set(body_fields(request) or ())
    return all((name, str(value)) in fields for name, value in wanted.get("body", {}).items())
