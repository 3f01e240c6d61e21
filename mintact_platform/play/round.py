"""One episode from its boot to its verdict: what the page shows and what is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from mintact_platform.models.protocol import ImageFile
from mintact_platform.play.chat import Message
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.rollouts.episode import Episode

Tools = tuple[Mapping[str, Any], ...]


@dataclass(eq=False)
class Round:
    """One episode of a session.

    Attributes:
        task: what is to be done.
        episode: the rollout, once there is a lease.
        instance: of the environment.
        server: of the instance.
        messages: what the agent would read now.
        images: screenshots of these messages, in order.
        size: width and height of the last screenshot.
        tools_now: callable tools now.
        tools: callable tools at each turn.
        sizes: size of the last screenshot at each turn.
        info: what the environment said beside the observation; no agent sees it.
        said: the last response.
        reward: the environment's own rewards so far.
        outcome: how it ended.
        failure: why it could not go on.
        trajectory: the record, once it ended.
        verdict: the judge's.
        judge_error: why there is none.
        saved: the file it was appended to.
    """

    task: Task
    episode: Episode | None = None
    instance: str = ""
    server: str = ""
    messages: tuple[Message, ...] = ()
    images: tuple[ImageFile, ...] = ()
    size: tuple[int, int] | None = None
    tools_now: Tools = ()
    tools: list[Tools] = field(default_factory=list)
    sizes: list[tuple[int, int] | None] = field(default_factory=list)
    info: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    reward: float = 0.0
    outcome: Outcome | None = None
    failure: Failure | None = None
    trajectory: Trajectory | None = None
    verdict: Verdict | None = None
    judge_error: str = ""
    saved: Path | None = None

    def show(self, messages: tuple[Message, ...], images: Sequence[ImageFile]) -> None:
        """A response is asked for."""
        self.messages, self.images = messages, tuple(images)
        if images:
            with Image.open(images[-1].path) as image:
                self.size = image.size
        self.tools.append(self.tools_now)
        self.sizes.append(self.size)

    def finish(self, outcome: Outcome, failure: Failure | None, seconds: float) -> None:
        """The episode ended."""
        self.outcome, self.failure = outcome, failure
        if self.episode is not None:
            self.episode.failure = failure
            self.trajectory = self.episode.trajectory(outcome, seconds)
            self.task = self.episode.task
