"""One question to an OpenAI-compatible endpoint: one request, one reply, or why there is none.

Retries, waits and deadlines over several attempts belong to the runner of judges; here a failure
says only whether asking again makes sense. Nothing that leaves this module holds the key.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from mintact_platform.errors import ConfigurationError, JudgeError
from mintact_platform.judging.errors import RetryLater, RetryNever
from mintact_platform.models.retry import retry_after
from mintact_platform.models.sglang import failure_text

LARGEST = 4 * 2**20
"""Bytes of a reply that are read."""

_CONNECT = 15.0
_BUSY = frozenset({429, 503, 529})
_HOPELESS = frozenset({400, 401, 402, 403, 404, 405, 410, 413, 415, 422})
_OFF_LOOP = 64 * 1024
_PATIENT = 2.0
"""Seconds to wait when a busy endpoint does not say how long."""


class Completion(NamedTuple):
    """What a model said.

    Attributes:
        text: the message.
        tokens_in: of the question, 0 where the endpoint does not say.
        tokens_out: of the answer, 0 where it does not say.
    """

    text: str
    tokens_in: int
    tokens_out: int


class Endpoint:
    """Where a model answers. `open` before, `close` after.

    Args:
        url: up to and including the version, `https://host/v1`.
        api_key_env: environment variable that holds the key; None sends none.
        timeout: seconds of a request, connecting and reading included.

    Raises:
        ConfigurationError: the URL is none, or the key's variable holds none.
    """

    def __init__(self, url: str, *, api_key_env: str | None, timeout: float) -> None:
        self.timeout = timeout
        self._url = _completions(url)
        self._key = _key(api_key_env)
        self._http: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Make the client; loads certificates, so not on the loop."""
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if self._http is None:
            timeout = httpx.Timeout(self.timeout, connect=_CONNECT)
            limits = httpx.Limits(max_connections=None)
            tls = await asyncio.to_thread(httpx.create_ssl_context)
            self._http = self._http or httpx.AsyncClient(
                headers=headers, timeout=timeout, limits=limits, verify=tls
            )

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def ask(self, body: Mapping[str, Any]) -> Completion:
        """Send one chat completion.

        Raises:
            RetryLater: it is busy.
            RetryNever: it will never take this question, or this key.
            JudgeError: no reply, or one that is no completion.
        """
        await self.open()
        content = await asyncio.to_thread(_dump, body)
        try:
            async with asyncio.timeout(self.timeout):
                status, headers, reply = await self._post(content)
        except (TimeoutError, httpx.TimeoutException):
            raise JudgeError(f"no reply within {self.timeout:g} s") from None
        except httpx.HTTPError as error:
            # the texts of these errors may quote headers
            raise JudgeError(f"cannot be reached ({type(error).__name__})") from None
        if status != 200:
            raise self._refused(status, headers, reply)
        kind = headers.get("content-type", "no type")
        if len(reply) > _OFF_LOOP:
            return await asyncio.to_thread(self._completion, reply, kind)
        return self._completion(reply, kind)

    def safe(self, text: str) -> str:
        """The text without the key, should an endpoint repeat it."""
        return text.replace(self._key, "…") if self._key else text

    async def _post(self, content: bytes) -> tuple[int, httpx.Headers, bytes]:
        assert self._http is not None
        headers = {"content-type": "application/json"}
        request = self._http.stream("POST", self._url, content=content, headers=headers)
        async with request as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise JudgeError("the reply is compressed, which was not asked for")
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                raise JudgeError("the reply is a stream of events, which was not asked for")
            return response.status_code, response.headers, await _bounded(response)

    def _refused(self, status: int, headers: httpx.Headers, reply: bytes) -> JudgeError:
        what = f"HTTP {status}: {self.safe(failure_text(reply))}"
        if status in _BUSY:
            seconds = retry_after(headers.get("retry-after"))
            if seconds is not None or status == 429:
                return RetryLater(_PATIENT if seconds is None else seconds, what)
        if 300 <= status < 400:
            return RetryNever(f"HTTP {status}: redirects are not followed, for the key's sake")
        return RetryNever(what) if status in _HOPELESS else JudgeError(what)

    def _completion(self, reply: bytes, kind: str) -> Completion:
        try:
            values = json.loads(reply)
        except (ValueError, RecursionError):
            raise JudgeError(f"the reply is no JSON ({self.safe(kind)[:60]})") from None
        if isinstance(values, dict) and values.get("error"):
            raise JudgeError(f"HTTP 200, yet an error: {self.safe(failure_text(reply))}")
        try:
            (choice,) = values["choices"]
            message, finish = choice["message"], choice.get("finish_reason")
            text, refusal = _text(message.get("content")), message.get("refusal")
            tokens = values.get("usage") or {}
            counts = [_count(tokens.get(k)) for k in ("prompt_tokens", "completion_tokens")]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise JudgeError("the reply is no chat completion with one choice") from None
        if refusal or finish == "content_filter":
            raise JudgeError("the model refuses to judge")
        if finish == "length":
            raise JudgeError("the reply was cut off; raise max_tokens")
        return Completion(text, *counts)


async def _bounded(response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > LARGEST:
            raise JudgeError(f"the reply is longer than {LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _completions(url: str) -> httpx.URL:
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL:
        base = httpx.URL()
    if base.scheme not in ("http", "https") or not base.host:
        raise ConfigurationError("not a URL", where="judge parameter 'url'", next="https://host/v1")
    if base.userinfo:
        raise ConfigurationError(
            "a URL with a password in it would be recorded with the run",
            where="judge parameter 'url'",
            next="put the key into an environment variable and name it in api_key_env",
        )
    return base.copy_with(path=f"{base.path.rstrip('/')}/chat/completions")


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            f"the environment variable {variable!r} holds no key",
            where="judge parameter 'api_key_env'",
            next=f"export {variable}=… before the run, or leave api_key_env out",
        )
    return key


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _text(content: Any) -> str:
    """A message's content: text, or parts of which the texts count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts: Sequence[Any] = [part["text"] for part in content if part["type"] == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is none")
    return "".join(texts)


def _count(value: Any) -> int:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and value >= 0 else 0
