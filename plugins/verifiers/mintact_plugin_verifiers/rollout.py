"""A rollout that waits wherever it would ask a model; imports no verifiers.

verifiers drives its model itself. Here that model is an agent of ours: each question waits for
the agent's next call, and the environment goes on with the answer. So an environment keeps its own
loop, whatever it overrides, and scores what it has seen itself. `classic` and `episodes` are the
two generations of verifiers' environments.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mintact_platform.errors import EnvironmentFailure
from mintact_plugin_verifiers.messages import Messages

MODEL = "mintact"
"""Name of the model that an environment believes to ask."""
_REFUSALS = 8
"""Questions that a rollout may ask after it was told to end."""


class Call(NamedTuple):
    """A tool call of the agent's."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(eq=False)
class Question:
    """A prompt that waits for an answer.

    Attributes:
        messages: the conversation so far.
        tools: callable now.
        reply: resolved with the answer.
    """

    messages: Messages
    tools: tuple[Any, ...]
    reply: asyncio.Future[Any] = field(default_factory=asyncio.Future)


class Score(NamedTuple):
    """What an environment made of a finished rollout.

    Attributes:
        reward: the weighted sum; any finite number.
        metrics: each reward function's and metric's own number.
        stop: verifiers' name of the condition that ended the rollout.
        truncated: a limit ended it.
        errors: what reward functions raised about the agent's words, by function.
        last: what the environment said at the end.
    """

    reward: float
    metrics: Mapping[str, float] = {}
    stop: str = ""
    truncated: bool = False
    errors: Mapping[str, str] = {}
    last: Messages = ()


class Rollout(ABC):
    """Runs as a task from `start` on, until it ended or was left."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[Question | None] = asyncio.Queue()
        self._question: Question | None = None
        self._task: asyncio.Task[Any] | None = None
        self._answers = 0

    @property
    def answered(self) -> bool:
        """Whether the agent said anything yet."""
        return self._answers > 0

    async def start(self) -> Question | None:
        """Begin, and wait for the first question; as `question`."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return await self.question()

    async def question(self) -> Question | None:
        """Wait for the next question; None once the rollout has ended.

        Raises:
            Exception: what the environment raised.
        """
        self._question = await self._asked.get()
        if self._question is None:
            await self._ended()
        return self._question

    def say(self, text: str) -> None:
        """Answer the question in words."""
        self._answer(text, None)

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Answer the question by calling a tool."""
        self._answer("", Call(f"call_{self._answers}", name, dict(arguments)))

    async def end(self) -> None:
        """End the rollout as it stands; it cleans up behind itself.

        Raises:
            EnvironmentFailure: it goes on asking.
            Exception: what the environment raised.
        """
        for _ in range(_REFUSALS):
            if self._question is None:
                return
            if not self._question.reply.done():
                self._refuse(self._question)
            await self.question()
        await self.leave()
        raise EnvironmentFailure("goes on asking after the agent ended the episode", phase="step")

    async def leave(self) -> None:
        """Stop at once, scored or not; the environment's own clean-up still runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # whoever asked may wait outside of the task
        while self._question is not None:
            self._question.reply.cancel()
            self._question = None if self._asked.empty() else self._asked.get_nowait()

    @abstractmethod
    async def score(self) -> Score | None:
        """What the ended rollout is worth; None where the environment scores nothing.

        Raises:
            EnvironmentFailure: the environment broke, or a service that it needs.
        """

    @abstractmethod
    async def _play(self) -> Any:
        """Have verifiers play the rollout."""

    @abstractmethod
    def _reply(self, question: Question, text: str, call: Call | None) -> None:
        """Resolve the question with the agent's words or its call."""

    @abstractmethod
    def _refuse(self, question: Question) -> None:
        """Resolve the question so that the rollout ends."""

    async def ask(self, messages: Messages, tools: Sequence[Any] | None) -> Any:
        """Called where verifiers asks its model; waits for the agent."""
        question = Question(list(messages), tuple(tools or ()))
        self._asked.put_nowait(question)
        return await question.reply

    async def _ended(self) -> Any:
        assert self._task is not None
        return await self._task

    async def _run(self) -> Any:
        try:
            return await self._play()
        finally:
            self._asked.put_nowait(None)

    def _answer(self, text: str, call: Call | None) -> None:
        assert self._question is not None
        self._answers += 1
        # the environment may have stopped waiting: its own time limit
        if not self._question.reply.done():
            self._reply(self._question, text, call)


class Playable(Protocol):
    """A loaded environment of either generation.

    Attributes:
        threshold: reward from which on a rollout counts as done.
    """

    threshold: float

    def rows(self, part: str) -> Sequence[Any]:
        """The rows of `train` or `eval`.

        Raises:
            ConfigurationError: there are none.
        """
        ...

    def prompt(self, row: Any) -> Messages | str:
        """What a rollout of the row begins with, as far as it is known beforehand."""
        ...

    async def begin(self, row: Any) -> Rollout:
        """A rollout of the row that is yet to be started."""
        ...

    async def close(self) -> None:
        """Release what the environment holds for all rollouts."""
        ...
