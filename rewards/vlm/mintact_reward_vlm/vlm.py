"""The judge `vlm`: a model sees the screenshots and actions and gives one verdict.

The paper's judge of websites answers correct, incorrect or website failure; here these are success,
failure and environment failure, and it may abstain.
"""

from __future__ import annotations

from typing import Any, Literal

from mintact_platform import Task, Verdict, judge
from mintact_platform.errors import ConfigurationError
from mintact_platform.judging.judge import JudgeView
from mintact_reward_vlm.endpoint import Endpoint
from mintact_reward_vlm.images import Select
from mintact_reward_vlm.model import OURS, Model, Prices, Request, Sight
from mintact_reward_vlm.prompt import Manner, Responses, opinion_form
from mintact_reward_vlm.replies import read_opinion

Detail = Literal["low", "high", "auto"]


@judge(cacheable=True, remote=True)
class Vlm:
    """Asks a model for a verdict on the whole rollout.

    Args:
        url: of any OpenAI-compatible endpoint, up to and including the version: `https://host/v1`.
        model: name that the endpoint knows.
        api_key_env: environment variable that holds the key; None sends none.
        images: screenshots shown, at most.
        select: `changes` leaves out screenshots equal to the one before, `evenly` does not.
        detail: of the screenshots, as the endpoint understands it.
        responses: which of the agent's own texts are shown: the last one, all, or none.
        state_check: show the environment's reading of its final state, too.
        turn_scores: also ask for a score in [0, 1] of each step, the verdict's `turn_rewards`.
        temperature: None leaves it to the endpoint.
        max_tokens: of the reply; None leaves it to the endpoint.
        max_chars: of all text shown; long pieces are shortened in the middle.
        instructions: further rules, in your words.
        timeout: seconds of one request.
        price_in: of a million tokens asked; None for not known.
        price_out: of a million tokens answered.
        extra: further fields of the request, e.g. `{ response_format = { type = "json_object" } }`.

    Raises:
        ConfigurationError: a URL that is none, a key that is not there.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str,
        api_key_env: str | None = None,
        images: int = 10,
        select: Select = "changes",
        detail: Detail = "auto",
        responses: Responses = "last",
        state_check: bool = False,
        turn_scores: bool = False,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        max_chars: int = 60_000,
        instructions: str = "",
        timeout: float = 60.0,
        price_in: float | None = None,
        price_out: float | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.turn_scores = turn_scores
        self.model = Model(
            Endpoint(url, api_key_env=api_key_env, timeout=timeout),
            Request(model, temperature, max_tokens, checked_extra(extra)),
            Sight(images, select, detail),
            Manner(responses, state_check, max_chars, instructions),
            Prices(price_in, price_out),
        )

    async def open(self) -> None:
        """Make the client."""
        await self.model.endpoint.open()

    async def close(self) -> None:
        """Close its connections."""
        await self.model.endpoint.close()

    async def judge(self, task: Task, trajectory: JudgeView) -> Verdict:
        """Ask once.

        Raises:
            JudgeError: no reply, or one that is no verdict.
        """
        turns = len(trajectory.turns) if self.turn_scores else None
        answer = await self.model.ask(
            trajectory, lambda nonce: opinion_form(task.domain, nonce, turns=turns)
        )
        opinion = read_opinion(answer.text, nonce=answer.nonce, turns=turns)
        reward = {"success": 1.0, "failure": 0.0}.get(opinion.label)
        return Verdict(
            opinion.label,
            reward=reward,
            turn_rewards=opinion.turns,
            reason=self.model.reason(opinion.reason),
            cost=answer.cost,
        )


def checked_extra(extra: dict[str, Any] | None) -> dict[str, Any]:
    """Further fields of a request.

    Raises:
        ConfigurationError: one of them is not to be set.
    """
    extra = extra or {}
    if taken := sorted(OURS & set(extra)):
        raise ConfigurationError(f"may not set {', '.join(taken)}", where="judge parameter 'extra'")
    return extra
