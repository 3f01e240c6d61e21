"""A vision-language model that is asked about rollouts, one conversation a judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mintact_platform.judging.judge import JudgeView
from mintact_reward_vlm.endpoint import Completion, Endpoint
from mintact_reward_vlm.images import Select, choose, load
from mintact_reward_vlm.prompt import Manner, Message, messages
from mintact_reward_vlm.untrusted import Marks, one_line

_REASON = 500
_MILLION = 1_000_000
OURS = frozenset({"model", "messages", "stream", "n"})
"""Fields of a request that `extra` may not set."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Which screenshots are shown, and how finely.

    Attributes:
        images: at most so many.
        select: how they are chosen, see `images.choose`.
        detail: as the endpoint understands it.
    """

    images: int
    select: Select
    detail: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a request says besides its messages.

    Attributes:
        model: name that the endpoint knows.
        temperature: None leaves it to the endpoint.
        max_tokens: of the reply; None leaves it to the endpoint.
        extra: further fields, e.g. `response_format`.
    """

    model: str
    temperature: float | None
    max_tokens: int | None
    extra: Mapping[str, Any]

    def body(self, conversation: list[Message]) -> dict[str, Any]:
        """The request."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        given = {name: value for name, value in own.items() if value is not None}
        return {**given, **self.extra, "model": self.model, "messages": conversation}


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens; None for not known.

    Attributes:
        tokens_in: of questions.
        tokens_out: of answers.
    """

    tokens_in: float | None
    tokens_out: float | None

    def of(self, completion: Completion) -> float | None:
        """What a completion cost; None without prices."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        spent = completion.tokens_in * (self.tokens_in or 0.0)
        return (spent + completion.tokens_out * (self.tokens_out or 0.0)) / _MILLION


class Answer(NamedTuple):
    """A model's reply.

    Attributes:
        text: everything it said.
        nonce: that its verdict must repeat.
        cost: of question and reply, None where prices are not given.
    """

    text: str
    nonce: str
    cost: float | None


@dataclass(frozen=True)
class Model:
    """Asks.

    Attributes:
        endpoint: where.
        request: what goes along with every conversation.
        sight: which screenshots.
        manner: how the rollout is laid before it.
        prices: of its tokens.
        draw: fence and nonce of a call.
    """

    endpoint: Endpoint
    request: Request
    sight: Sight
    manner: Manner
    prices: Prices
    draw: Callable[[], Marks] = Marks.draw

    async def ask(self, view: JudgeView, form: Callable[[str], str]) -> Answer:
        """Show a rollout and ask for an answer.

        Args:
            view: the rollout.
            form: the answer's form, given the nonce.

        Raises:
            JudgeError: see `Endpoint.ask`.
        """
        marks = self.draw()
        conversation = await asyncio.to_thread(self._conversation, view, form(marks.nonce), marks)
        completion = await self.endpoint.ask(self.request.body(conversation))
        return Answer(completion.text, marks.nonce, self.prices.of(completion))

    def reason(self, said: str) -> str:
        """A model's words as they may be recorded."""
        return one_line(self.endpoint.safe(said), _REASON)

    def _conversation(self, view: JudgeView, form: str, marks: Marks) -> list[Message]:
        sight = self.sight
        chosen = choose(
            view.turns,
            sight.images,
            final=view.trajectory.final_images,
            select=sight.select,
        )
        images = load(view, chosen, detail=sight.detail)
        return messages(view, images, form=form, marks=marks, manner=self.manner)
