"""From a chat completion to a reply, whoever served it; pure.

Compatible endpoints leave fields out and add their own, so a completion is read field by field:
what is needed must be there, the rest may be.
"""

from __future__ import annotations

import json
from typing import Any

from mintact_platform.errors import ModelServerError
from mintact_platform.models.messages import ChatReply, ToolCall
from mintact_platform.records.chat import Usage

_REASONING = ("reasoning_content", "reasoning")
"""Where endpoints put thinking that they give apart from the text."""


def read_usage(completion: object) -> Usage:
    """The tokens that an endpoint counts; zeros where it does not say."""
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    prompt = _count(getattr(usage, "prompt_tokens", None))
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=min(prompt, _count(getattr(details, "cached_tokens", None))),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
    )


def read_reply(completion: Any, *, logprobs: bool, usage: Usage) -> ChatReply:
    """What the model said.

    Args:
        completion: as the library read it, unchecked.
        logprobs: whether they were asked for.
        usage: of it, its cost known.

    Raises:
        ModelServerError: kind `void`, no completion; `content_filter`, the endpoint withheld it;
            `logprobs`, none although asked for.
    """
    try:
        choice = completion.choices[0]
        message, finish = choice.message, choice.finish_reason
        content, refusal = _text(message.content), getattr(message, "refusal", None)
        calls = tuple(_call(call, k) for k, call in enumerate(message.tool_calls or ()))
        reasoning = next(filter(None, (_str(getattr(message, n, "")) for n in _REASONING)), "")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise _void(completion) from None
    if finish == "content_filter":
        raise ModelServerError("the endpoint's filter withheld the reply", kind="content_filter")
    return ChatReply(
        text=_str(refusal) or content,
        calls=() if refusal else calls,
        reasoning=reasoning,
        refused=bool(refusal),
        finish="length" if finish == "length" else "stop",
        model=_str(getattr(completion, "model", "")),
        usage=usage,
        logprobs=_logprobs(choice) if logprobs else None,
    )


def _void(completion: object) -> ModelServerError:
    told = getattr(completion, "error", None)
    if isinstance(told, dict):
        what = f"HTTP 200, yet an error: {_str(told.get('message')) or 'of no kind'}"
    else:
        what = "the reply is no chat completion"
    return ModelServerError(what[:300], kind="void")


def _text(content: Any) -> str:
    """A message's content: text, or parts of which the texts count."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "".join(texts)


def _call(call: Any, index: int) -> ToolCall:
    arguments = call.function.arguments
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    name = call.function.name
    if not isinstance(name, str):
        raise TypeError("a call has no name")
    return ToolCall(_str(getattr(call, "id", "")) or f"call_{index}", name, arguments)


def _logprobs(choice: Any) -> tuple[tuple[str, float], ...]:
    try:
        return tuple((str(t.token), float(t.logprob)) for t in choice.logprobs.content or ())
    except (AttributeError, TypeError, ValueError):
        raise ModelServerError(
            "no log-probabilities in the reply, although asked for",
            kind="logprobs",
            next="set rollout.params.logprobs = false for this endpoint",
        ) from None


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and value >= 0 else 0
