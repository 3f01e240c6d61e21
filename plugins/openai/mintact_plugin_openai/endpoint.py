"""A chat endpoint behind the `openai` client: one answer a request, retries and waits included.

The library's own retries are off, so that every wait is seen by the deadline and shared by all
requests: when the endpoint says "later" to one, nobody asks before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import openai
from openai.types.chat import ChatCompletion

from mintact_platform.errors import ModelServerError
from mintact_plugin_openai.access import Access
from mintact_plugin_openai.trouble import Trouble, trouble

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_PROBE_SECONDS = 15.0


T = TypeVar("T")
Read = Callable[[object], T]
"""Reads a completion that nothing has checked; raises ModelServerError, kind `void` for garbage."""


class Answered(NamedTuple, Generic[T]):
    """What was read of a completion, and how many requests it took."""

    reply: T
    attempts: int


class Endpoint:
    """Where completions come from. Making one loads certificates: not on a loop.

    Args:
        access: address and key.
        timeout: seconds of one request.
        max_retries: requests after the first that gave no reply.
        first_wait: seconds before the first retry, doubled each time.
    """

    def __init__(
        self,
        access: Access,
        *,
        timeout: float,
        max_retries: int,
        first_wait: float = _FIRST_WAIT,
    ) -> None:
        self._access, self._timeout, self._retries = access, timeout, max_retries
        self._first_wait = first_wait
        self._quiet_until = 0.0
        self._client = openai.AsyncOpenAI(
            base_url=access.url,
            api_key=access.key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        # whatever the environment says about OpenAI's own accounts is no matter of this endpoint
        self._client.organization = self._client.project = None
        self._headers: dict[str, str | openai.Omit] = {"Content-Type": "application/json"}
        if not access.key:
            self._headers["Authorization"] = openai.Omit()

    async def reach(self, deadline: float) -> None:
        """Ask for the list of models: a wrong address or key is told before anything begins.

        Args:
            deadline: seconds it may take.

        Raises:
            ModelServerError: `unreachable`, `timeout` or `credentials`; an endpoint without such
                a list is taken as it is.
        """
        seconds = min(self._timeout, _PROBE_SECONDS, deadline)
        try:
            async with asyncio.timeout(seconds):
                await self._client.get(
                    "/models", cast_to=object, options={"headers": self._headers}
                )
        except Exception as error:
            found = trouble(error, self._access, seconds)
            if found is None:
                raise
            if found.error.kind in ("unreachable", "timeout", "credentials"):
                raise found.error from None

    async def complete(self, body: bytes, read: Read[T], *, deadline: float) -> Answered[T]:
        """Post a chat completion until there is one, or no sense in asking again.

        Args:
            body: JSON.
            read: makes of it what is wanted.
            deadline: seconds for all requests and waits together.

        Raises:
            ModelServerError: of the last request; kind `timeout` when the deadline ended it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        try:
            async with asyncio.timeout_at(end):
                return await self._until(body, read, end)
        except TimeoutError:
            raise ModelServerError(
                f"no reply within {deadline:g} s, retries included",
                kind="timeout",
                where=self._access.url,
                next="raise deadlines.generate, or lower rollout.active",
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _until(self, body: bytes, read: Read[T], end: float) -> Answered[T]:
        attempts = 0
        kind, said = "rate_limit", ""
        while True:
            await self._quiet(end, kind, said)
            found = await self._once(body, read)
            attempts += 1
            if not isinstance(found, Trouble):
                return Answered(found, attempts)
            if not found.again or attempts > self._retries:
                raise found.error from None
            kind, said = found.error.kind, f"{found.error.what}; "
            wait = min(_LONGEST_WAIT, self._first_wait * 2.0 ** (attempts - 1))
            if found.wait is None:
                await asyncio.sleep(wait)
            else:
                now = asyncio.get_running_loop().time()
                self._quiet_until = max(self._quiet_until, now + max(wait, found.wait))

    async def _quiet(self, end: float, kind: str, said: str) -> None:
        """Wait as long as the endpoint asked anyone to; not at all where that is too long."""
        rest = self._quiet_until - asyncio.get_running_loop().time()
        if self._quiet_until > end:
            what = f"{said}asks to wait {rest:.0f} s, more than the deadline leaves"
            raise ModelServerError(what, kind=kind, where=self._access.url)
        if rest > 0:
            await asyncio.sleep(rest)

    async def _once(self, body: bytes, read: Read[T]) -> T | Trouble:
        try:
            async with asyncio.timeout(self._timeout):
                completion = await self._client.post(
                    "/chat/completions",
                    cast_to=ChatCompletion,
                    content=body,
                    options={"headers": self._headers},
                )
            return read(completion)
        except ModelServerError as error:
            what = self._access.safe(error.what)
            said = ModelServerError(what, kind=error.kind, where=self._access.url, next=error.next)
            return Trouble(said, again=error.kind == "void")
        except Exception as error:
            found = trouble(error, self._access, self._timeout)
            if found is None:
                raise
            return found
