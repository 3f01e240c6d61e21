"""What a judge is and what it may look at.

A judge is `async (task, view, *, params…) -> Verdict` (a plain function will do), or a class with
`judge(task, view)` and, where it holds clients or models, `open()` and `close()`. It reads a
finished trajectory; it never needs the live environment and cannot change what it reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy.typing as npt

from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck, Verdict

ImageLoader = Callable[[str, str], bytes]
"""`(digest, extension) -> bytes` of a stored image."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgeView:
    """A finished trajectory as a judge sees it, images as bytes on demand.

    Attributes:
        trajectory: what is judged.
        image_loader: reads a stored image by digest and extension.
    """

    trajectory: Trajectory
    image_loader: ImageLoader

    def copy(self) -> JudgeView:
        """A view that shares nothing writable with this one; every attempt of a judge gets its own.

        Token arrays are not copied but made read-only.
        """
        whole = self.trajectory
        own = replace(
            whole,
            task=deepcopy(whole.task),
            turns=deepcopy(whole.turns),
            failure=deepcopy(whole.failure),
            state_check=deepcopy(whole.state_check),
            image_extensions=dict(whole.image_extensions),
            segments=tuple(_read_only(segment) for segment in whole.segments),
        )
        return JudgeView(own, self.image_loader)

    @property
    def task(self) -> Task:
        """The task."""
        return self.trajectory.task

    @property
    def outcome(self) -> Outcome:
        """How the rollout ended."""
        return self.trajectory.outcome

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns in order."""
        return self.trajectory.turns

    @property
    def answer(self) -> str:
        """The text of the last response."""
        return self.trajectory.answer

    @property
    def state_check(self) -> StateCheck | None:
        """The environment's own reading of its final state; None where there is none."""
        return self.trajectory.state_check

    @property
    def step_rewards(self) -> tuple[float, ...]:
        """The environment's own reward of each turn."""
        return self.trajectory.step_rewards

    @property
    def final_observation(self) -> str:
        """Text of what the environment showed last, after the last response."""
        return self.trajectory.final_observation

    def final_images(self) -> list[bytes]:
        """The encoded images shown last, after the last response; reads files, so blocks.

        Raises:
            StorageError: when a stored image is gone.
        """
        return self._load(self.trajectory.final_images)

    def images(self, turn: int) -> list[bytes]:
        """The encoded images shown before a turn's response; reads files, so blocks.

        Args:
            turn: 0-based; negative counts from the end.

        Raises:
            IndexError: when there is no such turn.
            StorageError: when a stored image is gone.
        """
        return self._load(self.trajectory.turns[turn].images)

    def _load(self, digests: Iterable[str]) -> list[bytes]:
        extensions = self.trajectory.image_extensions
        return [self.image_loader(digest, extensions.get(digest, "png")) for digest in digests]


class Judge(Protocol):
    """A judge as an object; `open` and `close` may be left out."""

    def judge(self, task: Task, trajectory: JudgeView) -> Verdict | Awaitable[Verdict]:
        """The verdict on one trajectory.

        An exception is retried and then masks the trajectory; `abstain` masks it at once.
        """
        ...


JudgeFunction = Callable[[Task, JudgeView], Verdict | Awaitable[Verdict]]

T = TypeVar("T", bound=Callable[..., Any])


def judge(*, cacheable: bool = False, remote: bool = False) -> Callable[[T], T]:
    """Declare what a judge, function or class, is like; without it neither holds.

    Args:
        cacheable: its verdict depends on nothing but its parameters and what it is shown, so that
            a run file's `cache = true` may keep it.
        remote: it asks somebody over the network; tried once before a run begins.

    Example:
        >>> @judge(cacheable=True)
        ... async def brief(task, trajectory, *, turns: int = 4): ...
    """

    def declare(target: T) -> T:
        target.cacheable, target.remote = cacheable, remote  # type: ignore[attr-defined]
        return target

    return declare


def _read_only(segment: Segment) -> Segment:
    def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        view = array.view()
        view.flags.writeable = False
        return view

    return replace(
        segment,
        ids=sealed(segment.ids),
        mask=sealed(segment.mask),
        logprobs=sealed(segment.logprobs),
        versions=sealed(segment.versions),
    )
