"""The judge `rubric`: a model marks several criteria, and all of them must pass.

The default criteria are the five by which the paper judges tool use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from mintact_platform import Task, Verdict, judge
from mintact_platform.errors import ConfigurationError
from mintact_platform.judging.judge import JudgeView
from mintact_reward_vlm.endpoint import Endpoint
from mintact_reward_vlm.images import Select
from mintact_reward_vlm.model import Model, Prices, Request, Sight
from mintact_reward_vlm.prompt import Manner, Responses, marks_form
from mintact_reward_vlm.replies import Marked, read_marks
from mintact_reward_vlm.untrusted import one_line
from mintact_reward_vlm.vlm import Detail, checked_extra
from mintact_reward_vlm.wording import CRITERIA

Reward = Literal["all", "mean"]


@judge(cacheable=True, remote=True)
class Rubric:
    """Asks a model for a pass or fail on each criterion; success is when all pass.

    Args:
        url: of any OpenAI-compatible endpoint, up to and including the version: `https://host/v1`.
        model: name that the endpoint knows.
        api_key_env: environment variable that holds the key; None sends none.
        criteria: `{ name = "what it means" }`; None takes the paper's five.
        task_criteria: name of a task parameter that holds further criteria in the same form; tasks
            without it are judged by `criteria` alone.
        reward: `all` gives 1 or 0, `mean` the share of criteria that pass.
        images: screenshots shown, at most.
        select: `changes` leaves out screenshots equal to the one before, `evenly` does not.
        detail: of the screenshots, as the endpoint understands it.
        responses: which of the agent's own texts are shown: the last one, all, or none.
        state_check: show the environment's reading of its final state, too.
        temperature: None leaves it to the endpoint.
        max_tokens: of the reply; None leaves it to the endpoint.
        max_chars: of all text shown; long pieces are shortened in the middle.
        instructions: further rules, in your words.
        timeout: seconds of one request.
        price_in: of a million tokens asked; None for not known.
        price_out: of a million tokens answered.
        extra: further fields of the request.

    Raises:
        ConfigurationError: a URL that is none, a key that is not there, no criterion.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str,
        api_key_env: str | None = None,
        criteria: dict[str, str] | None = None,
        task_criteria: str | None = None,
        reward: Reward = "all",
        images: int = 10,
        select: Select = "changes",
        detail: Detail = "auto",
        responses: Responses = "last",
        state_check: bool = True,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        max_chars: int = 60_000,
        instructions: str = "",
        timeout: float = 60.0,
        price_in: float | None = None,
        price_out: float | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.criteria = dict(CRITERIA if criteria is None else criteria)
        if not self.criteria:
            raise ConfigurationError("no criterion", where="judge parameter 'criteria'")
        self.task_criteria, self.reward = task_criteria, reward
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
        """Ask once; each criterion's mark is a component of the verdict.

        Raises:
            JudgeError: no reply, or one that is no verdict.
        """
        criteria = {**self.criteria, **self._of(task)}
        answer = await self.model.ask(
            trajectory, lambda nonce: marks_form(task.domain, nonce, criteria)
        )
        marked = read_marks(answer.text, nonce=answer.nonce, criteria=tuple(criteria))
        return scored(marked, self.reward, self.model.reason(marked.reason), answer.cost)

    def _of(self, task: Task) -> Mapping[str, str]:
        own = task.params.get(self.task_criteria, {}) if self.task_criteria else {}
        if not isinstance(own, Mapping):
            own = {f"criterion_{number}": text for number, text in enumerate(own, start=1)}
        return {one_line(str(k), 80): one_line(str(text), 1000) for k, text in own.items()}


def scored(marked: Marked, reward: Reward, reason: str, cost: float | None) -> Verdict:
    """The verdict of a marked rubric.

    Args:
        marked: what the model said.
        reward: `all` or `mean`.
        reason: as it is recorded.
        cost: of asking.
    """
    if marked.state == "environment_failure":
        return Verdict("environment_failure", reason=reason, cost=cost)
    if marked.state != "judged":
        return Verdict("abstain", reason=reason, cost=cost)
    missed = [name for name, passed in marked.passed.items() if not passed]
    share = 1 - len(missed) / len(marked.passed)
    told = f"fails {', '.join(missed)}: {reason}" if missed else reason
    return Verdict(
        "failure" if missed else "success",
        reward=share if reward == "mean" else float(not missed),
        components={name: float(passed) for name, passed in marked.passed.items()},
        reason=told,
        cost=cost,
    )
