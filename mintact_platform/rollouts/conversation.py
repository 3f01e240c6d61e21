"""What an episode says to its model and hears from it, in token ids or in messages.

A conversation is begun with a system prompt; then, turn by turn, it is told an observation and
asked for an answer. A change of the callable tools begins a new segment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mintact_platform.errors import ModelServerError
from mintact_platform.models.chat import ChatFormat
from mintact_platform.models.protocol import GenerateRequest, Generation, ImageFile, Sampling
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.chat import ChatRecord
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.trajectory import Segment
from mintact_platform.rollouts.context import StoredImage, TokenContext
from mintact_platform.storage.images import ImageStore

CUT_OFF = "the answer was cut off at the token limit; answer more briefly"


class ContractBroken(RuntimeError):
    """Engine and rollouter disagree about tokens: the run must stop, its data would be wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model answered.

    Attributes:
        text: verbatim, as it is recorded.
        spoken: without what ends a turn, as the action space reads it.
        error: why it cannot be used, shown to the model; "" where it may be.
        ends: how the rollout ends with this answer, None where it goes on.
    """

    text: str
    spoken: str
    error: str = ""
    ends: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """What goes along with every request of a rollout.

    Attributes:
        name: of the rollout; request ids begin with it.
        temperature: of sampling.
        max_new_tokens: budget of an answer.
        max_context: tokens of a conversation, where we count them.
        seed: of the answer of a turn.
    """

    name: str
    temperature: float
    max_new_tokens: int
    max_context: int
    seed: Callable[[int], int]


class Conversation(Protocol):
    """Between an episode and its model."""

    @property
    def segment(self) -> int:
        """Index of the current segment."""
        ...

    @property
    def full(self) -> bool:
        """Whether another answer would not fit any more."""
        ...

    def observe(self, text: str, images: Sequence[StoredImage]) -> None:
        """Tell what the environment shows."""
        ...

    async def answer(self, index: int) -> Answer | Outcome:
        """Ask for the answer of a turn; an outcome where the rollout ends without one.

        Raises:
            ModelServerError: none came.
            ContractBroken: see there.
        """
        ...

    def fork(self, system: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """Begin a new segment: the same history with other tools."""
        ...

    def segments(self) -> tuple[Segment, ...]:
        """The training segments; none where tokens are not known."""
        ...

    def record(self) -> ChatRecord | None:
        """What is kept of the messages; None where token ids are."""
        ...


class TokenConversation:
    """A conversation whose every token is ours.

    Args:
        asking: what goes along with requests.
        generate: sends one generation through the gate.
        chat: the model family's chat format.
        vision: the model's image geometry.
        images: where the pictures are.
        system: system prompt of the first segment.
    """

    def __init__(
        self,
        asking: Asking,
        generate: Callable[[GenerateRequest], Awaitable[Generation]],
        chat: ChatFormat,
        vision: VisionSize,
        images: ImageStore,
        system: str,
    ) -> None:
        self._asking, self._generate, self._chat, self._images = asking, generate, chat, images
        self._context = TokenContext(chat, vision, system)

    @property
    def segment(self) -> int:
        """Index of the current segment."""
        return self._context.segment

    @property
    def full(self) -> bool:
        """Whether the budget of another answer does not fit into the context."""
        return self._context.tokens + self._asking.max_new_tokens > self._asking.max_context

    def observe(self, text: str, images: Sequence[StoredImage]) -> None:
        """Append a user message and open the assistant's turn."""
        self._context.observe(text, images)

    async def answer(self, index: int) -> Answer | Outcome:
        """Generate, and keep the sampled ids verbatim."""
        context, chat = self._context, self._chat
        generation = await self._generate(self._request(index))
        if generation.finish == "abort":
            raise ModelServerError("aborted the request", kind="aborted")
        if generation.prompt_tokens != context.tokens:
            raise ContractBroken(
                f"the model server counts {generation.prompt_tokens} prompt tokens, "
                f"the rollouter {context.tokens}: image expansion or chat format differ"
            )
        ids = [int(token) for token in generation.ids]
        kept = context.sampled(ids, generation.logprobs.tolist(), generation.versions.tolist())
        text = chat.decode(kept)
        spoken = text.removesuffix(chat.decode([chat.end_id]))
        if len(kept) < len(ids):
            return Answer(text, spoken, "the answer held a reserved image token; answer again")
        if not kept or kept[-1] != chat.end_id:
            return Answer(text, spoken, CUT_OFF)
        return Answer(text, spoken)

    def fork(self, system: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """The whole history under another system prompt."""
        self._context.fork(system)

    def segments(self) -> tuple[Segment, ...]:
        """Every sampled token is supervised in exactly one of them."""
        return self._context.build()

    def record(self) -> None:
        """Nothing beside the tokens."""
        return None

    def _request(self, index: int) -> GenerateRequest:
        asking = self._asking
        return GenerateRequest(
            rid=f"{asking.name}-{index}",
            ids=self._context.ids,
            images=[
                ImageFile(self._images.path(image.digest, image.extension), image.digest)
                for image in self._context.images
            ],
            sampling=Sampling(
                temperature=asking.temperature,
                max_new_tokens=asking.max_new_tokens,
                stop_token_ids=self._chat.stop_ids,
                seed=asking.seed(index),
            ),
        )
