"""Chat completions of an OpenAI-compatible endpoint: deadlines, bounded retries, typed errors."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.retry import retry_after
from mintact_platform.models.sglang import failure_text

Message = Mapping[str, Any]
"""`{"role": …, "content": …}`, made by `said`."""

_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_MAX_REPLY = 32_000_000
_CONNECT_S = 15.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers, and how patient one is with it.

    Attributes:
        base_url: up to and including the version, `https://host/v1`.
        model: name that the endpoint knows.
        api_key_env: environment variable that holds the key; None sends none.
        max_tokens: of an answer; None leaves it to the endpoint.
        temperature: None leaves it to the endpoint.
        timeout_s: for one try.
        deadline_s: for all tries of a question and the waits between them.
        tries: at most.
        concurrency: questions at a time.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout_s: float = 600.0
    deadline_s: float = 1800.0
    tries: int = 5
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the message.
        cut: whether it ended at the token limit.
        tokens: of question and answer together, 0 where the endpoint does not say.
    """

    text: str
    cut: bool = False
    tokens: int = 0


class ChatModel:
    """Asks one endpoint; an async context manager.

    `ModelServerError.kind` says why there is no answer: `auth` (key refused), `request` (the
    endpoint will never take this question), `busy` (it kept refusing), `unreachable`, `timeout`,
    `void` (the answer is no chat completion), `refused` (the model or its filter declined).

    Args:
        endpoint: where.
        sleep: waits between tries.
        jitter: spreads the waits of many askers.

    Raises:
        ConfigurationError: the URL is none, or the key's variable is not set.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._sleep, self._jitter = sleep, jitter or random.Random()
        self._key = _key(endpoint)
        self._url = _completions(endpoint.base_url)
        self._seats = asyncio.Semaphore(endpoint.concurrency)
        self._http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(endpoint.timeout_s, connect=_CONNECT_S),
        )

    async def __aenter__(self) -> ChatModel:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def ask(self, messages: Sequence[Message]) -> Reply:
        """The model's next message.

        Args:
            messages: the conversation so far.

        Raises:
            ModelServerError: see the class.
        """
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": list(messages)}
        if self.endpoint.max_tokens is not None:
            body["max_tokens"] = self.endpoint.max_tokens
        if self.endpoint.temperature is not None:
            body["temperature"] = self.endpoint.temperature
        content = json.dumps(body, ensure_ascii=False).encode()
        async with self._seats:
            try:
                async with asyncio.timeout(self.endpoint.deadline_s):
                    return await self._ask(content)
            except TimeoutError:
                raise self._error("no answer in time", "timeout") from None

    async def _ask(self, content: bytes) -> Reply:
        until = time.monotonic() + self.endpoint.deadline_s
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._try(content)
            except _Again as again:
                if attempt >= self.endpoint.tries:
                    raise self._error(f"{again.what} (try {attempt})", again.kind) from None
                pause = self._pause(attempt, again.after_s)
                if time.monotonic() + pause > until:
                    what = f"{again.what}; asks to wait for {pause:.0f} s"
                    raise self._error(what, again.kind) from None
            await self._sleep(pause)

    async def _try(self, content: bytes) -> Reply:
        try:
            async with (
                asyncio.timeout(self.endpoint.timeout_s),
                self._http.stream(
                    "POST",
                    self._url,
                    content=content,
                    headers={"content-type": "application/json"},
                ) as response,
            ):
                answer = await _bounded(response)
        except (TimeoutError, httpx.TimeoutException):
            raise _Again("no answer in time", "timeout") from None
        except httpx.HTTPError as error:
            raise _Again(f"cannot be reached ({type(error).__name__})", "unreachable") from None
        if response.status_code in _BUSY:
            what = f"status {response.status_code}: {self._safe(failure_text(answer))}"
            raise _Again(what, "busy", retry_after(response.headers.get("retry-after")))
        if response.status_code != 200:
            kind = "auth" if response.status_code in (401, 403) else "request"
            what = f"status {response.status_code}: {self._safe(failure_text(answer))}"
            raise self._error(what, kind)
        return self._read(answer)

    def _read(self, answer: bytes) -> Reply:
        try:
            reply = json.loads(answer)
            choice = reply["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            text = _text(message.get("content"))
            declined = message.get("refusal")
            tokens = int((reply.get("usage") or {}).get("total_tokens") or 0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise _Again("the answer is no chat completion", "void") from None
        if declined or finish == "content_filter":
            raise self._error(f"the model declined: {str(declined or finish)[:200]}", "refused")
        return Reply(text, finish == "length", tokens)

    def _pause(self, attempt: int, after_s: float | None) -> float:
        """Seconds before the next try: what the endpoint asks for, else twice as long each time."""
        if after_s is not None:
            return after_s
        return float(min(60.0, 2.0 ** (attempt - 1)) * self._jitter.uniform(0.5, 1.0))

    def _safe(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text

    def _error(self, what: str, kind: str) -> ModelServerError:
        following = {"auth": f"check the key in {self.endpoint.api_key_env or 'api_key_env'}"}
        where = f"{self.endpoint.model} at {self.endpoint.base_url}"
        return ModelServerError(what, kind=kind, where=where, next=following.get(kind, ""))


class _Again(Exception):
    """This try failed; another may not."""

    def __init__(self, what: str, kind: str, after_s: float | None = None) -> None:
        super().__init__(what)
        self.what, self.kind, self.after_s = what, kind, after_s


def said(role: str, text: str, *images: bytes) -> Message:
    """A message of a conversation; images follow the text as data URLs.

    Args:
        role: `system`, `user` or `assistant`.
        text: what is said.
        images: encoded, PNG or JPEG.
    """
    if not images:
        return {"role": role, "content": text}
    return {"role": role, "content": [{"type": "text", "text": text}, *map(image_part, images)]}


def image_part(image: bytes) -> dict[str, Any]:
    """An encoded PNG, JPEG or WebP as a part of a message's content."""
    url = f"data:{_kind(image)};base64,{base64.b64encode(image).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _kind(image: bytes) -> str:
    if image.startswith(b"\x89PNG"):
        return "image/png"
    return "image/webp" if image[8:12] == b"WEBP" else "image/jpeg"


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


async def _bounded(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _MAX_REPLY:
            raise _Again(f"the answer is longer than {_MAX_REPLY} bytes", "void")
        parts.append(part)
    return b"".join(parts)


def _key(endpoint: Endpoint) -> str | None:
    if endpoint.api_key_env is None:
        return None
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise ConfigurationError(
            f"the environment variable {endpoint.api_key_env!r} is not set",
            where=endpoint.base_url,
            next="put the endpoint's key there",
        )
    return key


def _completions(base_url: str) -> str:
    url = httpx.URL(base_url)
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(f"not a URL: {base_url!r}", next="write https://host/v1")
    return f"{base_url.rstrip('/')}/chat/completions"
