"""The person in the model server's place: asked for a response, answering when it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from mintact_platform.actions.parse import sendable
from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import GenerateRequest, Generation
from mintact_platform.play.chat import PlainChat, read_messages
from mintact_platform.play.round import Round
from mintact_platform.play.settings import NotNow

GAVE_UP = "gave up"
"""Kind of the failure by which a person ends an episode."""
MAX_RESPONSE = 100_000
"""Characters of a response."""


class Person:
    """Generates by asking.

    Args:
        asked: called whenever a response is awaited.
    """

    def __init__(self, asked: Callable[[], None]) -> None:
        self._asked = asked
        self._answer: asyncio.Future[str] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a response is awaited."""
        return self._answer is not None and not self._answer.done()

    def respond(self, text: str) -> None:
        """Answer.

        Raises:
            NotNow: nobody asked, or the response is too long.
        """
        if self._answer is None or self._answer.done():
            raise NotNow("it is not your turn", next="wait for the observation")
        if len(text) > MAX_RESPONSE:
            raise NotNow(f"a response has at most {MAX_RESPONSE} characters, got {len(text)}")
        self._answer.set_result(sendable(text))

    def give_up(self) -> None:
        """Answer that there will be no response."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ModelServerError(GAVE_UP, kind=GAVE_UP))

    async def generate(self, round: Round, request: GenerateRequest) -> Generation:
        """One response, by hand.

        Raises:
            ModelServerError: kind `GAVE_UP`.
        """
        round.show(read_messages(request.ids), request.images)
        self._answer = asyncio.get_running_loop().create_future()
        self._asked()
        try:
            text = await self._answer
        finally:
            self._answer = None
        round.said, chat = text, PlainChat()
        ids = np.asarray([*chat.encode(text), chat.end_id], np.int32)
        return Generation(
            ids=ids,
            logprobs=np.zeros(len(ids), np.float32),
            versions=np.zeros(len(ids), np.int32),
            finish="stop",
            prompt_tokens=len(request.ids),
        )
