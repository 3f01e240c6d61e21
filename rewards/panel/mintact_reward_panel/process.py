"""The judge `process`: another judge decides, and its reward is spread over the turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Literal

from mintact_platform import Task, Verdict
from mintact_platform.config import JudgeChoice
from mintact_platform.errors import ConfigurationError, about
from mintact_platform.judging.errors import RetryNever
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.named import runner_of
from mintact_platform.registry.names import Registry
from mintact_reward_panel.credit import added, differences, shared

Source = Literal["judge", "steps", "usable"]


class Process:
    """Gives turn rewards that add up to the reward.

    The label is the inner judge's; where that abstains or blames the environment, so does this.

    Args:
        judge: decides, as in a run file: a name, or `{ name = …, params = { … } }`.
        turns: where the turns' numbers come from: `judge`, the inner judge's own turn rewards
            (`vlm` with `turn_scores = true`); `steps`, the environment's step rewards; `usable`,
            1 for a response that could be used and 0 for one that could not.
        progress: the numbers are a running total, of which each turn gets what it added.
        credit: `share` keeps the reward and splits it in proportion to the numbers; `bonus` adds
            `weight` times the numbers to it.
        weight: of the numbers, for `bonus`.
        seconds: deadline of the inner judge's attempt; below the run's `deadlines.judge`.

    Raises:
        ConfigurationError: a weight that is not used.
        PluginError: a judge that no plugin registers.
    """

    def __init__(
        self,
        *,
        judge: JudgeChoice,
        turns: Source = "judge",
        progress: bool = False,
        credit: Literal["share", "bonus"] = "share",
        weight: float | None = None,
        seconds: float = 60.0,
    ) -> None:
        if judge.cache:
            wrong = "the inner judge cannot be cached by itself; set cache beside this one's name"
            raise ConfigurationError(wrong, where="judge 'process'")
        if weight is not None and credit != "bonus":
            raise ConfigurationError('weight counts with credit = "bonus"', where="judge 'process'")
        self.source, self.progress, self.credit = turns, progress, credit
        self.weight = 1.0 if weight is None else weight
        with about("judge 'process'"):
            self.inner = runner_of(judge, deadline=seconds, registry=Registry.discover())

    @property
    def cacheable(self) -> bool:
        """Whether the inner judge is."""
        return self.inner.cacheable

    @property
    def remote(self) -> bool:
        """Whether the inner judge is."""
        return self.inner.remote

    @property
    def identity(self) -> dict[str, Any]:
        """Who the inner judge is, for a cache's keys."""
        return self.inner.identity

    async def close(self) -> None:
        """Close the inner judge; it is opened when first asked."""
        await self.inner.close()

    async def judge(self, task: Task, trajectory: JudgeView) -> Verdict:
        """Ask the inner judge and spread its reward.

        Raises:
            JudgeError: it failed, or gives no turn rewards where they are wanted.
        """
        verdict = await self.inner.judge(task, trajectory)
        if verdict.reward is None:
            return replace(verdict, turn_rewards=None)
        raw = self._numbers(verdict, trajectory)
        turns = self._spread(differences(raw) if self.progress else raw, verdict.reward)
        reward = verdict.reward if self.credit == "share" or not turns else fsum(turns)
        components = {**verdict.components, "outcome": verdict.reward, "process": fsum(raw)}
        return replace(verdict, reward=reward, turn_rewards=turns, components=components)

    def _numbers(self, verdict: Verdict, view: JudgeView) -> tuple[float, ...]:
        if self.source == "steps":
            return view.step_rewards
        if self.source == "usable":
            return tuple(float(not turn.error) for turn in view.turns)
        if verdict.turn_rewards is None:
            raise RetryNever(
                f"judge {self.inner.name!r} gives no turn rewards; see the parameter turns"
            )
        return verdict.turn_rewards

    def _spread(self, raw: Sequence[float], reward: float) -> tuple[float, ...]:
        if self.credit == "share":
            return shared(raw, reward)
        return added(raw, reward, self.weight)
