"""A conversation in messages, with an engine that knows no token ids of ours.

Responses are recorded in the action space's own words, also those made by the endpoint's tool
interface: parser, judge and demonstrations see one form, whatever the endpoint speaks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mintact_platform.actions.parse import CLOSE, OPEN
from mintact_platform.actions.space import ActionSpace, Call
from mintact_platform.errors import ModelServerError
from mintact_platform.models.messages import (
    ChatReply,
    ChatRequest,
    Message,
    MessageEngine,
    ToolCall,
    function_schemas,
    native_prompt,
)
from mintact_platform.models.protocol import ImageFile
from mintact_platform.records.chat import ChatRecord, ReplyRecord
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.trajectory import Segment
from mintact_platform.rollouts.context import StoredImage
from mintact_platform.rollouts.conversation import CUT_OFF, Answer, Asking
from mintact_platform.storage.images import ImageStore

_THINKING = re.compile(r"</?think>")
_NO_THOUGHT = "<think></think>"
_DONE, _SEE_LAST = "done", "see the result of the last call"


class MessageConversation:
    """A conversation with a message engine.

    Args:
        asking: what goes along with requests; `max_context` does not bind, the endpoint's own
            limit does.
        engine: who answers.
        space: words native calls; describes its functions.
        images: where the pictures are.
        system: system prompt, unless calls are native.
        tools: schemas of what can be called at first.
    """

    def __init__(
        self,
        asking: Asking,
        engine: MessageEngine,
        space: ActionSpace,
        images: ImageStore,
        system: str,
        tools: Sequence[Mapping[str, Any]],
    ) -> None:
        self._asking, self._engine, self._space, self._images = asking, engine, space, images
        self._messages: list[Message] = []
        self._replies: list[ReplyRecord] = []
        self._open: tuple[ToolCall, ...] = ()
        self._segment = 0
        self._set(system, tools)

    @property
    def segment(self) -> int:
        """How often the tools have changed."""
        return self._segment

    @property
    def full(self) -> bool:
        """Never: the endpoint says so itself."""
        return False

    def observe(self, text: str, images: Sequence[StoredImage]) -> None:
        """Append what is shown: the results of native calls, else a user message."""
        pictures = tuple(
            ImageFile(self._images.path(image.digest, image.extension), image.digest)
            for image in images
        )
        calls, self._open = self._open, ()
        if not calls:
            self._messages.append(Message("user", text, pictures))
            return
        results = [*[_SEE_LAST] * (len(calls) - 1), text or _DONE]
        self._messages += [
            Message("tool", result, call_id=call.id)
            for call, result in zip(calls, results, strict=True)
        ]
        if pictures:
            # the result of a call may hold text only
            self._messages.append(Message("user", "", pictures))

    async def answer(self, index: int) -> Answer | Outcome:
        """Ask the engine; a refusal ends the rollout, and is the agent's."""
        asking = self._asking
        request = ChatRequest(
            rid=f"{asking.name}-{index}",
            messages=(self._system, *self._messages),
            tools=self._functions,
            temperature=asking.temperature,
            max_new_tokens=asking.max_new_tokens,
            seed=asking.seed(index),
        )
        try:
            reply = await self._engine.chat(request)
        except ModelServerError as error:
            if error.kind == "context" and self._replies:
                return Outcome.CONTEXT_OVERFLOW
            # before its first reply the agent has done nothing that could be too long
            raise
        self._replies.append(_record(reply))
        self._messages.append(Message("assistant", reply.text, calls=reply.calls))
        self._open = reply.calls
        text = worded(reply, self._space)
        if reply.refused:
            return Answer(text, text, "the model refused", ends=Outcome.AGENT_ERROR)
        return Answer(text, text, CUT_OFF if reply.finish == "length" else "")

    def fork(self, system: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """The whole history with other tools."""
        self._segment += 1
        self._set(system, tools)

    def segments(self) -> tuple[Segment, ...]:
        """None: the tokens are the endpoint's."""
        return ()

    def record(self) -> ChatRecord:
        """Usage, cost and log-probabilities of the replies."""
        return ChatRecord(tuple(self._replies))

    def _set(self, system: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._functions: tuple[dict[str, Any], ...] = ()
        if self._engine.native_tools:
            description = self._space.describe()  # type: ignore[attr-defined]
            self._functions = function_schemas(description, tools)
            system = native_prompt(description)
        self._system = Message("system", system)


def worded(reply: ChatReply, space: ActionSpace) -> str:
    """A reply as the action space words it: verbatim, native calls put into words.

    Thinking that the endpoint gives apart stands before the text as if the model had written it.
    """
    if not reply.calls:
        if reply.reasoning and "</think>" not in reply.text:
            return f"<think>{reply.reasoning}</think>{reply.text}"
        return reply.text
    thought = _THINKING.sub("", reply.text or reply.reasoning).strip()
    first, *rest = reply.calls
    words = [_call(first, thought, space)]
    words += [_call(call, "", space).removeprefix(_NO_THOUGHT) for call in rest]
    return "".join(words)


def _call(call: ToolCall, thought: str, space: ActionSpace) -> str:
    try:
        arguments = json.loads(call.arguments or "{}")
        if not isinstance(arguments, dict):
            raise ValueError("no object")
        return space.render(thought, Call(call.name, arguments))
    except (ValueError, RecursionError):
        # as it was written: the parser says what is wrong with it
        name = json.dumps(call.name, ensure_ascii=False)
        body = f'{{"name": {name}, "arguments": {call.arguments}}}'
        return f"<think>{thought}</think>{OPEN}{body}{CLOSE}"


def _record(reply: ChatReply) -> ReplyRecord:
    return ReplyRecord(
        model=reply.model,
        finish="refusal" if reply.refused else reply.finish,
        usage=reply.usage,
        attempts=reply.attempts,
        logprobs=reply.logprobs,
    )
