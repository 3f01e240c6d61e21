"""The judge `ensemble`: several judges are asked at once, and their votes are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Any, Literal

from mintact_platform import Task, Verdict
from mintact_platform.config import JudgeChoice
from mintact_platform.errors import ConfigurationError, JudgeError, about
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.named import runner_of
from mintact_platform.registry.names import Registry
from mintact_reward_panel.votes import Ballot, Decision, Mode, decide

_REASON = 120


class Ensemble:
    """Asks every member and counts their votes; see `votes.decide` and the README's table.

    A member that fails is no vote. If so many fail that the quorum is missed, this judge fails
    too, and is asked again as any judge is; if they abstained, it abstains.

    Args:
        judges: the members, as in a run file: a name, or `{ name = …, params = { … } }`, with
            `concurrency`, `requests_per_minute` and `retries` of their own.
        mode: `all`, `any`, `vote` (a tie abstains) or `weighted`.
        weights: one a member, for `weighted`; None makes them equal.
        threshold: for `weighted`, the share of success from which on it is one.
        min_members: the quorum; None is more than half of the members.
        reward: `label` gives 1 or 0, `share` the share of success among the votes.
        seconds: deadline of a member's attempt; below the run's `deadlines.judge`.

    Raises:
        ConfigurationError: no member, weights that do not fit, an impossible quorum.
        PluginError: a member that no plugin registers.
    """

    def __init__(
        self,
        *,
        judges: list[JudgeChoice],
        mode: Mode = "all",
        weights: list[float] | None = None,
        threshold: float = 0.5,
        min_members: int | None = None,
        reward: Literal["label", "share"] = "label",
        seconds: float = 60.0,
    ) -> None:
        self.mode, self.threshold, self.reward = mode, threshold, reward
        self.weights = weights or [1.0] * len(judges)
        self.quorum = len(judges) // 2 + 1 if min_members is None else min_members
        _check(judges, self.weights, weights is not None and mode != "weighted", self.quorum)
        registry = Registry.discover()
        self.members = []
        for place, choice in enumerate(judges):
            with about(f"judges[{place}]"):
                self.members.append(runner_of(choice, deadline=seconds, registry=registry))
        self.names = _distinct([choice.name for choice in judges])

    @property
    def cacheable(self) -> bool:
        """Whether all members are."""
        return all(member.cacheable for member in self.members)

    @property
    def remote(self) -> bool:
        """Whether any member is."""
        return any(member.remote for member in self.members)

    @property
    def identity(self) -> list[dict[str, Any]]:
        """Who the members are, for a cache's keys."""
        return [member.identity for member in self.members]

    async def close(self) -> None:
        """Close every member; they are opened when first asked."""
        await asyncio.gather(*(member.close() for member in self.members))

    async def judge(self, task: Task, trajectory: JudgeView) -> Verdict:
        """Ask all members at once.

        Raises:
            JudgeError: so many failed that too few are left.
        """
        asked = (self._ballot(place, task, trajectory) for place in range(len(self.members)))
        ballots = await asyncio.gather(*asked)
        decision = decide(ballots, self.mode, threshold=self.threshold, quorum=self.quorum)
        failed = [ballot for ballot in ballots if ballot.verdict is None]
        told = len(ballots) - int(decision.components["silent"])
        if failed and told < self.quorum:
            raise JudgeError(
                f"{len(failed)} of {len(ballots)} judges failed, {self.quorum} are needed: "
                f"{failed[0].name}: {failed[0].why}"
            )
        return self._verdict(decision, ballots)

    async def _ballot(self, place: int, task: Task, view: JudgeView) -> Ballot:
        name, weight = self.names[place], self.weights[place]
        try:
            verdict = await self.members[place].judge(task, view)
        except JudgeError as error:
            return Ballot(name, None, error.what, weight)
        return Ballot(name, verdict, weight=weight)

    def _verdict(self, decision: Decision, ballots: Sequence[Ballot]) -> Verdict:
        costs = [b.verdict.cost for b in ballots if b.verdict and b.verdict.cost is not None]
        decided = decision.label in ("success", "failure")
        value = decision.share if self.reward == "share" else float(decision.label == "success")
        return Verdict(
            decision.label,
            reward=value if decided else None,
            components=decision.components,
            reason=f"{self.mode}: {'; '.join(map(_said, ballots))}",
            cost=sum(costs) if costs else None,
        )


def _said(ballot: Ballot) -> str:
    why = ballot.why if ballot.verdict is None else ballot.verdict.reason
    return f"{ballot.name} {ballot.label}" + (f" ({why[:_REASON]})" if why else "")


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered from the second of a kind on: `vlm`, `vlm 2`."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return distinct


def _check(
    judges: Sequence[JudgeChoice], weights: Sequence[float], unused: bool, quorum: int
) -> None:
    wrong = ""
    if not judges:
        wrong = "no member"
    elif any(choice.cache for choice in judges):
        wrong = "a member cannot be cached by itself; set cache beside the ensemble's name"
    elif len(weights) != len(judges) or any(not 0 <= weight < inf for weight in weights):
        wrong = f"needs {len(judges)} weights of at least 0"
    elif unused:
        wrong = 'weights count in mode "weighted" only'
    elif not 1 <= quorum <= len(judges):
        wrong = f"min_members must be from 1 to {len(judges)}"
    if wrong:
        raise ConfigurationError(wrong, where="judge 'ensemble'")
