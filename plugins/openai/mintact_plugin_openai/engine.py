"""The `openai` rollout engine: any endpoint of chat completions, in messages."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.inline import InlineImages
from mintact_platform.models.messages import ChatReply, ChatRequest, ChatSpec
from mintact_platform.records.chat import Usage
from mintact_plugin_openai.access import access
from mintact_plugin_openai.body import Form
from mintact_plugin_openai.prices import Prices
from mintact_plugin_openai.reply import read_reply, read_usage

if TYPE_CHECKING:
    from mintact_plugin_openai.endpoint import Endpoint

Omitted = Literal["temperature", "max_tokens", "parallel_tool_calls"]
_INLINE_CHARACTERS = 256 * 2**20


class OpenAIEngine:
    """Asks an OpenAI-compatible endpoint for every answer; without streaming, one choice each.

    Args:
        base_url: up to and including the version, `https://host/v1`.
        model: name that the endpoint knows.
        api_key_env: environment variable that holds the key, in capital letters; None sends none.
        tools: `text` asks for calls as the action space words them; `native` offers its functions
            through the endpoint's tool interface and puts the calls into words.
        max_retries: further requests after one that gave no reply.
        timeout: seconds of one request.
        price_in: of a million prompt tokens; without prices the cost is not known.
        price_out: of a million tokens of replies.
        price_cached: of a million prompt tokens from the endpoint's cache.
        max_cost: nothing is asked any more once so much is spent.
        logprobs: ask for the log-probability of each token and record it.
        image_detail: as the endpoint understands it; None says nothing.
        max_tokens_field: how the endpoint calls the budget of a reply; older ones `max_tokens`.
        send_seed: send a seed with each request.
        omit: fields that the endpoint refuses.
        extra_body: further fields of each request.

    Raises:
        ConfigurationError: a wrong URL, no key, a secret in the parameters.
    """

    speaks: ClassVar[Literal["messages"]] = "messages"

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        tools: Literal["text", "native"] = "text",
        max_retries: Annotated[int, Field(ge=0)] = 4,
        timeout: Annotated[float, Field(gt=0)] = 60.0,
        price_in: float | None = None,
        price_out: float | None = None,
        price_cached: float | None = None,
        max_cost: float | None = None,
        logprobs: bool = False,
        image_detail: Literal["auto", "low", "high"] | None = None,
        max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens",
        send_seed: bool = False,
        omit: Sequence[Omitted] = (),
        extra_body: Mapping[str, Any] = {},
    ) -> None:
        self.model, self.native_tools = model, tools == "native"
        self._access = access(base_url, api_key_env)
        self._retries, self._timeout, self._logprobs = max_retries, timeout, logprobs
        self._prices = Prices(price_in, price_out, price_cached)
        if max_cost is not None and not self._prices.known:
            raise ConfigurationError(
                "max_cost without prices", where="rollout.params", next="add price_in, price_out"
            )
        self._max_cost = max_cost
        left_out = [max_tokens_field if name == "max_tokens" else name for name in omit]
        self._form = Form(
            model, max_tokens_field, logprobs, send_seed, image_detail, left_out, dict(extra_body)
        )
        self._images = InlineImages(_INLINE_CHARACTERS)
        self._deadline = timeout
        self._endpoint: Endpoint | None = None
        self.spent = Usage()

    async def start(self, spec: ChatSpec) -> None:
        """Load the client library and reach the endpoint.

        Raises:
            ModelServerError: nobody answers there, or the key is refused.
        """
        self._deadline = spec.reply_deadline
        self._endpoint = await asyncio.to_thread(self._open)
        await self._endpoint.reach(spec.deadline)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask for a reply; see `MessageEngine.chat`.

        Raises:
            ModelServerError: kind `timeout`, `unreachable`, `rate_limit`, `http`, `void` (garbage),
                all after retries; `credentials`, `not_found`, `invalid`, `quota`,
                `content_filter`, `context`, `logprobs` at once; `budget`, `max_cost` is spent.
        """
        endpoint = self._endpoint
        if endpoint is None:
            raise ModelServerError("not started", kind="unreachable", where=self._access.url)
        if self._max_cost is not None and (self.spent.cost or 0.0) >= self._max_cost:
            raise ModelServerError(
                f"max_cost is spent: {self.spent}", kind="budget", where=self._access.url
            )
        body = await self._body(request)
        answered = await endpoint.complete(body, self._read, deadline=self._deadline)
        return replace(answered.reply, attempts=answered.attempts)

    async def close(self) -> None:
        """Close every connection."""
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await endpoint.close()

    def _read(self, completion: object) -> ChatReply:
        usage = self._prices.of(read_usage(completion))
        # what was paid for counts, also where the reply cannot be used
        self.spent += usage
        return read_reply(completion, logprobs=self._logprobs, usage=usage)

    def _open(self) -> Endpoint:
        # the client library takes a second to import, and certificates are read
        module = importlib.import_module("mintact_plugin_openai.endpoint")
        endpoint: Endpoint = module.Endpoint(
            self._access, timeout=self._timeout, max_retries=self._retries
        )
        return endpoint

    async def _body(self, request: ChatRequest) -> bytes:
        shown = {image.digest: image for message in request.messages for image in message.images}
        urls = {digest: await self._images.encode(image) for digest, image in shown.items()}
        return await asyncio.to_thread(_dump, self._form, request, urls)


def _dump(form: Form, request: ChatRequest, images: Mapping[str, str]) -> bytes:
    return json.dumps(form.body(request, images), ensure_ascii=False).encode()
