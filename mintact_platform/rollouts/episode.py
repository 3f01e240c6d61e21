"""One episode: reset, then generate, parse and step to the end; every failure attributed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.config import Deadlines
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.protocol.wire import Observation
from mintact_platform.errors import EnvironmentFailure, ModelServerError
from mintact_platform.models.chat import ChatFormat
from mintact_platform.models.messages import MessageEngine
from mintact_platform.models.protocol import GenerateRequest, Generation
from mintact_platform.models.vision import VisionSize, fit_image
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.records.verdict import StateCheck
from mintact_platform.rollouts.context import StoredImage
from mintact_platform.rollouts.conversation import (
    Answer,
    Asking,
    Conversation,
    TokenConversation,
)
from mintact_platform.rollouts.conversation import (
    ContractBroken as ContractBroken,
)
from mintact_platform.rollouts.messages import MessageConversation
from mintact_platform.rollouts.seeds import seed_of
from mintact_platform.storage.images import ImageStore


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """What an episode needs to know; see `config.RolloutSection`."""

    temperature: float
    max_new_tokens: int
    max_context: int
    max_turns: int
    max_error_turns: int
    tools_in: str
    deadlines: Deadlines
    seed: int

    def seed_for(self, task: Task) -> int:
        """The seed that the environment is reset with."""
        return task.seed if task.seed is not None else self.seed


@dataclass(frozen=True, slots=True)
class EpisodeKey:
    """Which rollout this is: its id, its place in a group, the attempt."""

    id: str
    group: str = ""
    member: int = 0
    attempt: int = 0


@dataclass(frozen=True)
class EpisodeTools:
    """What an episode works with.

    Attributes:
        generate: sends one generation through the gate.
        chat: the model family's chat format; None with a message engine.
        vision: the model's image geometry.
        images: the run's image store.
        space: the domain's action space.
        messages: the engine that answers, where it speaks messages; `generate` is not used then.
    """

    generate: Callable[[GenerateRequest], Awaitable[Generation]]
    chat: ChatFormat | None
    vision: VisionSize
    images: ImageStore
    space: ActionSpace
    messages: MessageEngine | None = None


@dataclass
class Episode:
    """The state of one episode; `run` may be called once."""

    task: Task
    key: EpisodeKey
    settings: EpisodeSettings
    tools: EpisodeTools
    turns: list[Turn] = field(default_factory=list)
    failure: Failure | None = None
    state_check: StateCheck | None = None
    _conversation: Conversation | None = None
    _schemas: tuple[Mapping[str, Any], ...] = ()
    _tool_sets: list[tuple[Mapping[str, Any], ...]] = field(default_factory=list)
    _size: tuple[int, int] = (0, 0)
    _shown: list[StoredImage] = field(default_factory=list)
    _last: tuple[str, tuple[str, ...]] = ("", ())
    _steps: int = 0
    _errors: int = 0

    async def run(
        self, lease: Lease, slot: AbstractAsyncContextManager[Any] | None = None
    ) -> Outcome:
        """Play the episode on a lease; never raises but for cancellation and broken contracts.

        Args:
            lease: exclusive to this episode.
            slot: held from the first turn to the last, None for no bound; the reset needs none.
        """
        bound = contextlib.nullcontext() if slot is None else slot
        outcome, self.failure = await attributed(lambda: self._play(lease, bound), lease.instance)
        return outcome

    def trajectory(self, outcome: Outcome, seconds: float) -> Trajectory:
        """The record of what happened so far."""
        talk = self._conversation
        return Trajectory(
            id=self.key.id,
            group=self.key.group,
            member=self.key.member,
            attempt=self.key.attempt,
            task=self.task,
            outcome=outcome,
            failure=self.failure,
            turns=tuple(self.turns),
            segments=talk.segments() if talk is not None else (),
            temperature=self.settings.temperature,
            state_check=self.state_check,
            image_extensions={image.digest: image.extension for image in self._shown},
            final_observation=self._last[0],
            final_images=self._last[1],
            seconds=seconds,
            tool_sets=tuple(self._tool_sets),
            chat=talk.record() if talk is not None else None,
        )

    async def _play(self, lease: Lease, slot: AbstractAsyncContextManager[Any]) -> Outcome:
        limits = self.settings.deadlines
        observation = await lease.reset(
            episode=self.key.id,
            task=self.task,
            seed=self.settings.seed_for(self.task),
            deadline=limits.reset,
        )
        async with slot:
            outcome = await self._turns(lease, observation)
        self.state_check = await lease.evaluate(deadline=limits.evaluate)
        return outcome

    async def _turns(self, lease: Lease, observation: Observation) -> Outcome:
        text, images = await self._see(observation, first=True)
        limit = min(self.settings.max_turns, self.task.max_turns or self.settings.max_turns)
        for index in range(limit):
            talk = self._conversation
            assert talk is not None
            talk.observe(text, images)
            if talk.full:
                return Outcome.CONTEXT_OVERFLOW
            start = time.monotonic()
            answer = await talk.answer(index)
            if isinstance(answer, Outcome):
                return answer
            generated = time.monotonic() - start
            self._last = "", ()
            turn = self._turn(index, text, images, answer, generated)
            parsed = self._parsed(answer)
            if isinstance(parsed, ParseError):
                self.turns.append(dataclasses.replace(turn, error=parsed.message))
                self._errors += 1
                if answer.ends is not None or self._errors >= self.settings.max_error_turns:
                    return answer.ends or Outcome.AGENT_ERROR
                text, images = self.tools.space.observation_text(parsed.message), []
                continue
            observation, ended = await self._act(lease, turn, parsed)
            if ended or observation.truncated:
                await self._keep(observation)
                return Outcome.COMPLETED if ended else Outcome.MAX_TURNS
            text, images = await self._see(observation)
        return Outcome.MAX_TURNS

    def _turn(
        self, index: int, text: str, images: Sequence[StoredImage], answer: Answer, seconds: float
    ) -> Turn:
        assert self._conversation is not None
        return Turn(
            index=index,
            observation=text,
            images=tuple(image.digest for image in images),
            response=answer.text,
            segment=self._conversation.segment,
            generate_seconds=seconds,
            tools=len(self._tool_sets) - 1,
        )

    def _parsed(self, answer: Answer) -> tuple[Call, ...] | ParseError:
        if answer.error:
            return ParseError(answer.error)
        return self.tools.space.parse(answer.spoken, self._schemas)

    def _begin(self, system: str) -> Conversation:
        tools, settings, key = self.tools, self.settings, self.key
        asking = Asking(
            key.id,
            settings.temperature,
            settings.max_new_tokens,
            settings.max_context,
            lambda index: seed_of(settings.seed, self.task.id, key.member, key.attempt, index),
        )
        if tools.messages is not None:
            return MessageConversation(
                asking, tools.messages, tools.space, tools.images, system, self._schemas
            )
        assert tools.chat is not None
        return TokenConversation(
            asking, tools.generate, tools.chat, tools.vision, tools.images, system
        )

    async def _act(
        self, lease: Lease, turn: Turn, calls: Sequence[Call]
    ) -> tuple[Observation, bool]:
        start, reward, ended = time.monotonic(), 0.0, False
        pixel_calls = []
        for call in calls:
            pixel = self.tools.space.to_pixels(call, *self._size)
            pixel_calls.append(pixel.to_json())
            observation = await lease.step(
                step=self._steps, action=pixel.to_json(), deadline=self.settings.deadlines.step
            )
            self._steps += 1
            reward += observation.reward
            ended = call.ends or observation.terminated
            if ended or observation.truncated:
                break
        self.turns.append(
            dataclasses.replace(
                turn,
                calls=tuple(call.to_json() for call in calls),
                pixel_calls=tuple(pixel_calls),
                reward=reward,
                step_seconds=time.monotonic() - start,
            )
        )
        return observation, ended

    async def _see(
        self, observation: Observation, *, first: bool = False
    ) -> tuple[str, list[StoredImage]]:
        """Store the images, update the callable tools, and word the observation."""
        images = await self._keep(observation)
        space = self.tools.space
        text = space.observation_text(observation.text) if observation.text else ""
        changed = observation.tools is not None and observation.tools != self._schemas
        if observation.tools is not None:
            self._schemas = observation.tools
        if changed or first:
            self._tool_sets.append(self._schemas)
        if first:
            self._conversation = self._begin(space.system_prompt(self.task, self._schemas))
            return "\n".join(filter(None, (self.task.goal, text))), images
        if changed and self._conversation is not None:
            if self._forks:
                prompt = space.system_prompt(self.task, self._schemas)
                self._conversation.fork(prompt, self._schemas)
            else:
                text += space.observation_text(_tool_message(self._schemas))
        return text, images

    @property
    def _forks(self) -> bool:
        """Whether a change of the callable tools begins a new segment."""
        engine = self.tools.messages
        return self.settings.tools_in == "system" or (engine is not None and engine.native_tools)

    async def _keep(self, observation: Observation) -> list[StoredImage]:
        """Store what the environment shows; it is the last until a response follows."""
        images = [await self._store(observation, k) for k in range(len(observation.images))]
        if observation.images:
            self._size = (observation.images[-1].width, observation.images[-1].height)
        self._shown += images
        self._last = observation.text, tuple(image.digest for image in images)
        return images

    async def _store(self, observation: Observation, index: int) -> StoredImage:
        image = observation.images[index]
        return await asyncio.to_thread(
            _store, self.tools.images, self.tools.vision, image.data, image
        )


async def attributed(
    play: Callable[[], Awaitable[Outcome]], instance: str = ""
) -> tuple[Outcome, Failure | None]:
    """Run, and turn what is raised into a typed outcome with its failure.

    Raises:
        asyncio.CancelledError: passed on.
        ContractBroken: passed on; no data of such a run may be trained on.
    """
    try:
        return await play(), None
    except EnvironmentFailure as error:
        failure = Failure(error.phase, error.kind, error.what, error.log_tail, instance)
        late = error.kind == "timeout"
        return (Outcome.TIMEOUT if late else Outcome.ENVIRONMENT_FAILURE), failure
    except ModelServerError as error:
        failure = Failure("generate", error.kind, error.what)
        late = error.kind == "timeout"
        return (Outcome.TIMEOUT if late else Outcome.MODEL_FAILURE), failure
    except ContractBroken:
        raise
    except Exception as error:
        tail = "".join(traceback.format_exception(error)[-6:])
        return Outcome.INTERNAL_FAILURE, Failure(
            "internal", type(error).__name__, str(error).split("\n")[0], tail, instance
        )


def _store(images: ImageStore, vision: VisionSize, data: bytes, image: Any) -> StoredImage:
    fitted = fit_image(data, image.width, image.height, image.format, vision)
    digest = images.put(fitted.data, fitted.extension)
    return StoredImage(digest, fitted.extension, fitted.width, fitted.height)


def _tool_message(schemas: Sequence[Mapping[str, Any]]) -> str:
    names = ", ".join(str(s.get("function", s).get("name", "?")) for s in schemas)
    return f"callable tools now: {names}"
