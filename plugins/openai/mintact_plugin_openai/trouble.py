"""What went wrong with a request: whose fault it is, and whether to ask again; pure."""

from __future__ import annotations

import re
from typing import NamedTuple

import openai

from mintact_platform.errors import ModelServerError
from mintact_platform.models.retry import retry_after
from mintact_platform.models.sglang import failure_text
from mintact_plugin_openai.access import Access

_AGAIN = frozenset({408, 409, 425, 429})
_KINDS = {401: "credentials", 403: "credentials", 404: "not_found", 429: "rate_limit"}
_TOO_LONG = re.compile(
    r"context.length|context.window|maximum context|context size|prompt is too long"
    r"|too many (input )?tokens|longer than the model|max_model_len",
    re.IGNORECASE,
)
_NEXT = {
    "credentials": "check the variable that rollout.params.api_key_env names",
    "not_found": "check rollout.params.base_url and model",
    "quota": "the account is used up; nothing is asked again",
    "timeout": "raise rollout.params.timeout or deadlines.generate, or lower rollout.active",
}


class Trouble(NamedTuple):
    """One request that gave no reply.

    Attributes:
        error: to be raised.
        again: whether asking again makes sense.
        wait: seconds that the endpoint asks to wait, None where it says none.
    """

    error: ModelServerError
    again: bool
    wait: float | None = None


def trouble(error: Exception, access: Access, timeout: float) -> Trouble | None:
    """What an exception of a request means; None for one that is no matter of the endpoint."""
    if isinstance(error, openai.APIStatusError):
        return _refused(error, access)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Trouble(_error(f"no reply within {timeout:g} s", "timeout", access), again=True)
    if isinstance(error, openai.APIConnectionError):
        # its cause says which; its text may quote headers
        cause = type(error.__cause__ or error).__name__
        return Trouble(_error(f"cannot be reached ({cause})", "unreachable", access), again=True)
    if isinstance(error, openai.OpenAIError | ValueError):
        what = f"the reply cannot be read ({type(error).__name__})"
        return Trouble(_error(what, "void", access), again=True)
    return None


def _refused(error: openai.APIStatusError, access: Access) -> Trouble:
    status, headers = error.status_code, error.response.headers
    said = access.safe(failure_text(error.response.content))
    kind = _kind(status, str(error.code or ""), said)
    again = (status in _AGAIN or status >= 500) and kind not in ("quota", "context")
    wait = retry_after(headers.get("retry-after")) if again else None
    return Trouble(_error(f"HTTP {status}: {said}", kind, access), again, wait)


def _kind(status: int, code: str, said: str) -> str:
    if code in ("insufficient_quota", "billing_hard_limit_reached") or status == 402:
        return "quota"
    if code == "content_filter":
        return "content_filter"
    if code == "context_length_exceeded" or (status in (400, 413, 422) and _TOO_LONG.search(said)):
        return "context"
    if status in _KINDS:
        return _KINDS[status]
    return "invalid" if 400 <= status < 500 else "http"


def _error(what: str, kind: str, access: Access) -> ModelServerError:
    return ModelServerError(what, kind=kind, where=access.url, next=_NEXT.get(kind, ""))
