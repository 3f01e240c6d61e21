"""A verifiers environment as an `AsyncEnvironment`: its questions are our observations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.verdict import StateCheck
from mintact_plugin_verifiers.loading import load, missing_for
from mintact_plugin_verifiers.messages import Messages, news, pictures, schemas, words
from mintact_plugin_verifiers.rollout import Question, Rollout, Score
from mintact_plugin_verifiers.rows import row_of

Returned = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]


class VerifiersEnvironment:
    """Plays the rollouts of an installed verifiers environment.

    An agent speaks by `answer` and calls the environment's tools by their names; `terminate` ends
    the rollout as it stands. The rubric's reward is the reward of the last step, and, cut to
    [0, 1], the score of the state check.

    Args:
        id: as verifiers knows it.
        args: keyword arguments of the environment's own `load_environment`; for one written for
            verifiers 0.4, its configuration.
        threshold: reward from which on a rollout counts as done; None takes the environment's.

    Raises:
        ConfigurationError: it cannot be loaded, or cannot be played one rollout at a time.
    """

    metadata: Mapping[str, Any] = {
        "mintact": {"domain": "tools", "action_space": "tool_use", "instances_per_worker": 8}
    }

    def __init__(
        self, *, id: str, args: dict[str, Any] | None = None, threshold: float | None = None
    ) -> None:
        self._environment = load(id, args or {})
        self._threshold = self._environment.threshold if threshold is None else threshold
        self._rollout: Rollout | None = None
        self._question: Question | None = None
        self._score: Score | None = None
        self._scored = False
        self._tools: list[dict[str, Any]] | None = None

    @classmethod
    def missing(cls, *, id: str | None = None) -> str | None:
        """What is not installed here, None when nothing; without an id, of the family itself."""
        return missing_for(id)

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the rollout of the task's row; without a task the seed chooses one.

        The observation is empty where the environment's prompt is the task's goal, word for word.
        """
        await self._leave()
        task = (options or {}).get("task") or {}
        row = row_of(self._environment, task, seed)
        self._rollout, self._scored, self._score = await self._environment.begin(row), False, None
        self._question = await self._rollout.start()
        if self._question is None:
            await self._rollout.score()
            raise EnvironmentFailure("the rollout ended before it asked anything", phase="reset")
        prompt = self._question.messages
        known = words(prompt) == task.get("goal")
        self._tools = schemas(self._question.tools)
        seen = _observation("" if known else words(prompt), prompt)
        return seen, {"tools": self._tools}

    async def step(self, action: Mapping[str, Any]) -> Returned:
        """Answer the environment's question; what it says next, or its reward at the end."""
        rollout, asked = self._rollout, self._question
        if rollout is None or asked is None:
            raise EnvironmentFailure("the episode is over; reset first", phase="step")
        name, arguments = str(action.get("name")), action.get("arguments") or {}
        if name == "terminate":
            await self._finish()
            return self._ended(asked.messages)
        if name == "answer":
            rollout.say(str(arguments.get("text", "")))
        elif name in {tool["function"]["name"] for tool in self._tools or ()}:
            rollout.call(name, arguments)
        else:
            text = f"refused: there is no tool {name!r} here; nothing happened"
            return {"text": text}, 0.0, False, False, {"refused": name}
        self._question = await rollout.question()
        if self._question is None:
            await self._finish()
            return self._ended(asked.messages)
        return self._seen(news(asked.messages, self._question.messages))

    async def evaluate(self) -> StateCheck | None:
        """The rubric's reward; a rollout that is not over yet ends here, as it stands."""
        if self._rollout is None:
            return None
        await self._finish()
        if self._score is None:
            return None
        reward = self._score.reward
        details = {"reward": reward, "threshold": self._threshold, "stop": self._score.stop}
        more = {"metrics": dict(self._score.metrics), "errors": dict(self._score.errors)}
        done = reward >= self._threshold
        return StateCheck(done, min(1.0, max(0.0, reward)), {**details, **more})

    async def close(self) -> None:
        """Leave the rollout and release what the environment holds for all of them."""
        await self._leave()
        await self._environment.close()

    async def _finish(self) -> None:
        if self._scored or self._rollout is None:
            return
        self._question = None
        await self._rollout.end()
        self._score = await self._rollout.score()
        if self._score is not None and not math.isfinite(self._score.reward):
            raise EnvironmentFailure(f"the rubric's reward is {self._score.reward}", phase="step")
        self._scored = True

    async def _leave(self) -> None:
        rollout, self._rollout, self._question = self._rollout, None, None
        if rollout is not None:
            await rollout.leave()

    def _seen(self, messages: Messages) -> Returned:
        assert self._question is not None
        tools, info = schemas(self._question.tools), {}
        if json.dumps(tools) != json.dumps(self._tools):
            self._tools = tools
            info["tools"] = tools
        return _observation(words(messages), messages), 0.0, False, False, info

    def _ended(self, before: Messages) -> Returned:
        score = self._score
        if score is None:
            return {"text": ""}, 0.0, True, False, {}
        info = {"stop": score.stop, "metrics": dict(score.metrics)}
        seen = _observation(words(score.last), score.last)
        return seen, score.reward, not score.truncated, score.truncated, info


def _observation(text: str, messages: Messages) -> dict[str, Any]:
    images = pictures(messages)
    return {"text": text, "images": images} if images else {"text": text}
