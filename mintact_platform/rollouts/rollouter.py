"""Many episodes: each leased, played, released, then judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mintact_platform.actions.space import ActionSpace
from mintact_platform.environments.pools.manager import EnvironmentManager
from mintact_platform.errors import JudgeError
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.models.chat import ChatFormat
from mintact_platform.models.gate import Gate
from mintact_platform.models.messages import MessageEngine
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.rollouts.episode import (
    Episode,
    EpisodeKey,
    EpisodeSettings,
    EpisodeTools,
    attributed,
)
from mintact_platform.storage.ids import UlidSource
from mintact_platform.storage.images import ImageStore


@dataclass(frozen=True)
class DomainTools:
    """What the rollouts of one domain use."""

    space: ActionSpace
    judge: JudgeRunner
    settings: EpisodeSettings


@dataclass(frozen=True, eq=False)
class Judged:
    """A finished rollout and what the judge said; `verdict` is None when it was not judged."""

    trajectory: Trajectory
    verdict: Verdict | None
    outcome: Outcome
    failure: Failure | None

    @property
    def live(self) -> bool:
        """Whether the rollout counts for statistics and loss."""
        return self.outcome.counts and self.verdict is not None and self.verdict.reward is not None

    @property
    def success(self) -> bool:
        """Whether the judge says so, whatever the reward; False when not live."""
        return self.live and self.verdict is not None and self.verdict.label == "success"

    @property
    def reward(self) -> float:
        """The judge's reward; 0.0 when not live, where nothing may read it."""
        live = self.live and self.verdict is not None and self.verdict.reward is not None
        return float(self.verdict.reward) if live else 0.0  # type: ignore[union-attr, arg-type]


class Rollouter:
    """Plays episodes under a bound on how many are active.

    Args:
        domains: what each domain's rollouts use.
        manager: leases environments; pools are named like the domains.
        gate: sends generations.
        chat: the model family's chat format; None with a message engine.
        vision: the model's image geometry.
        images: the run's image store.
        messages: the engine, where it speaks messages; the gate is not used then.
        active: upper bound of concurrent rollouts.
        ids: makes trajectory ids.
        clock: monotonic seconds.

    Attributes:
        running: rollouts that hold a lease; at most `active` of them are past their reset.
        waiting: rollouts that wait for a lease, by domain.
    """

    def __init__(
        self,
        domains: Mapping[str, DomainTools],
        manager: EnvironmentManager,
        gate: Gate,
        *,
        chat: ChatFormat | None,
        vision: VisionSize,
        images: ImageStore,
        active: int,
        messages: MessageEngine | None = None,
        ids: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ids = ids or UlidSource()
        self.domains, self.manager, self.gate = domains, manager, gate
        self.chat, self.vision, self.images = chat, vision, images
        self.messages = messages
        self.clock = clock
        self.active = active
        self.running = 0
        self.waiting = dict.fromkeys(domains, 0)
        self._slots = asyncio.Semaphore(active)

    async def play(
        self, domain: str, task: Task, key: EpisodeKey, *, temperature: float | None = None
    ) -> Trajectory:
        """One rollout: acquire, play, release. Raises only on cancellation and broken contracts."""
        tools = self.domains[domain]
        settings = tools.settings
        if temperature is not None:
            settings = replace(settings, temperature=temperature)
        used = EpisodeTools(
            self.gate.generate, self.chat, self.vision, self.images, tools.space, self.messages
        )
        episode = Episode(task, key, settings, used)
        start = self.clock()
        outcome, failure = await attributed(lambda: self._leased(domain, episode))
        episode.failure = episode.failure or failure
        return episode.trajectory(outcome, self.clock() - start)

    def prepare(self, domain: str, task: Task, episode: str) -> bool:
        """Reset ahead for a rollout that will soon be played under this id, where leases are idle.

        Returns:
            Whether it is prepared; see `EnvironmentManager.prepare`.
        """
        seed = self.domains[domain].settings.seed_for(task)
        return self.manager.prepare(domain, episode=episode, task=task, seed=seed)

    def forget(self, domain: str, episode: str) -> None:
        """A prepared rollout will not be played."""
        self.manager.forget(domain, episode)

    async def judge(self, domain: str, trajectory: Trajectory) -> Judged:
        """Ask the domain's judge about a recorded rollout; a failing judge masks it."""
        if not trajectory.outcome.counts:
            return Judged(trajectory, None, trajectory.outcome, trajectory.failure)
        try:
            view = JudgeView(trajectory, self._image)
            verdict = await self.domains[domain].judge.judge(trajectory.task, view)
        except JudgeError as error:
            failure = Failure("judge", "JudgeError", error.what)
            return Judged(trajectory, None, Outcome.JUDGE_FAILURE, failure)
        if verdict.label == "environment_failure":
            failure = Failure("judge", "environment_failure", verdict.reason)
            return Judged(trajectory, verdict, Outcome.ENVIRONMENT_FAILURE, failure)
        if verdict.label == "abstain":
            failure = Failure("judge", "abstain", verdict.reason or "the judge abstained")
            return Judged(trajectory, verdict, Outcome.JUDGE_FAILURE, failure)
        return Judged(trajectory, verdict, trajectory.outcome, None)

    async def _leased(self, domain: str, episode: Episode) -> Outcome:
        self.waiting[domain] += 1
        waits = True
        try:
            async with self.manager.acquire(domain, episode=episode.key.id) as lease:
                self.waiting[domain] -= 1
                waits = False
                self.running += 1
                try:
                    return await episode.run(lease, self._slots)
                finally:
                    self.running -= 1
        finally:
            self.waiting[domain] -= waits

    def _image(self, digest: str, extension: str) -> bytes:
        return self.images.path(digest, extension).read_bytes()
