"""One rollout as it was generated: turns for people and judges, token segments for training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mintact_platform.records.chat import ChatRecord
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """An image of a segment: which, and at which token its placeholder stands.

    Attributes:
        digest: blake2b of the stored bytes; the file is `images/<2 hex>/<digest>.<extension>`.
        extension: `png` or `jpg`.
        position: index of the one placeholder token in the collapsed ids.
        width: pixels.
        height: pixels.
    """

    digest: str
    extension: str
    position: int
    width: int
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """An append-only token context under one system prompt. Arrays are `[tokens]`, collapsed ids.

    Attributes:
        ids: int32 token ids, one placeholder an image.
        mask: bool, true exactly on tokens the policy sampled and that are supervised here.
        logprobs: float32 log π_roll after temperature where sampled, else 0.
        versions: int32 weight version that sampled the token, -1 elsewhere.
        images: where each image stands.
    """

    ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.bool_]
    logprobs: npt.NDArray[np.float32]
    versions: npt.NDArray[np.int32]
    images: tuple[ImageSpan, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not len(self.mask) == len(self.logprobs) == len(self.versions) == n:
            raise ValueError("ids, mask, logprobs and versions of a segment differ in length")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: what the agent saw, said and did.

    Attributes:
        index: 0-based.
        observation: text part of the observation.
        images: digests of the images shown before this turn's response, in order.
        response: the model's text, verbatim, special tokens included.
        calls: parsed calls `{"name", "arguments"}`, coordinates in the action space's grid.
        pixel_calls: the same calls as sent to the environment, coordinates in pixels.
        error: the model-visible error if the response could not be used, else "".
        reward: the environment's own step reward.
        segment: index of the segment the response belongs to.
        generate_seconds: wall time of generation.
        step_seconds: wall time of the environment's step.
        tools: which of the trajectory's `tool_sets` could be called.
    """

    index: int
    observation: str
    images: tuple[str, ...]
    response: str
    calls: tuple[Mapping[str, Any], ...] = ()
    pixel_calls: tuple[Mapping[str, Any], ...] = ()
    error: str = ""
    reward: float = 0.0
    segment: int = 0
    generate_seconds: float = 0.0
    step_seconds: float = 0.0
    tools: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """A finished rollout.

    Attributes:
        id: ULID.
        group: ULID of its group, "" outside training.
        member: 0-based place in the group.
        attempt: 0 for the first try of that place.
        task: the task.
        outcome: how it ended.
        failure: why it is masked, if it is.
        turns: in order.
        segments: in order; one unless the callable tools changed; none of a message engine.
        temperature: of every generation in it.
        state_check: the environment's reading of the final state, if it got that far.
        image_extensions: file extension by image digest.
        final_observation: text of what the environment showed last, after the last response.
        final_images: digests of its images.
        seconds: wall time from acquire to release.
        tool_sets: what could be called (schemas), by the environment's announcements in order.
        chat: usage and cost of its replies, where a message engine gave them.
    """

    id: str
    group: str
    member: int
    attempt: int
    task: Task
    outcome: Outcome
    failure: Failure | None = None
    turns: tuple[Turn, ...] = ()
    segments: tuple[Segment, ...] = ()
    temperature: float = 1.0
    state_check: StateCheck | None = None
    image_extensions: Mapping[str, str] = field(default_factory=dict)
    final_observation: str = ""
    final_images: tuple[str, ...] = ()
    seconds: float = 0.0
    tool_sets: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    chat: ChatRecord | None = None

    @property
    def step_rewards(self) -> tuple[float, ...]:
        """The environment's own reward of each turn."""
        return tuple(turn.reward for turn in self.turns)

    @property
    def answer(self) -> str:
        """The text of the last response, "" when there is none."""
        return self.turns[-1].response if self.turns else ""

    @property
    def tokens(self) -> int:
        """Sampled tokens over all turns; of a message engine, as its endpoint counts them."""
        if self.chat is not None:
            return self.chat.usage.completion_tokens
        return sum(int(segment.mask.sum()) for segment in self.segments)

    @property
    def version_range(self) -> tuple[int, int]:
        """Oldest and newest weight version of supervised tokens; (-1, -1) without any."""
        versions = [s.versions[s.mask] for s in self.segments if s.mask.any()]
        if not versions:
            return -1, -1
        joined = np.concatenate(versions)
        return int(joined.min()), int(joined.max())

    def to_json(self) -> dict[str, Any]:
        """Everything but the token arrays, as JSON values."""
        return {
            "id": self.id,
            "group": self.group,
            "member": self.member,
            "attempt": self.attempt,
            "task": self.task.to_json(),
            "outcome": str(self.outcome),
            "failure": None if self.failure is None else self.failure.to_json(),
            "turns": [asdict(turn) for turn in self.turns],
            "segments": [{"images": [asdict(image) for image in s.images]} for s in self.segments],
            "temperature": self.temperature,
            "state_check": None if self.state_check is None else asdict(self.state_check),
            "image_extensions": dict(self.image_extensions),
            "final_observation": self.final_observation,
            "final_images": list(self.final_images),
            "seconds": self.seconds,
            "tool_sets": [[dict(tool) for tool in tools] for tools in self.tool_sets],
            "chat": None if self.chat is None else self.chat.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], segments: tuple[Segment, ...]) -> Trajectory:
        """Rebuild from `to_json` and the stored token arrays."""
        check = values["state_check"]
        return cls(
            **{
                **values,
                "task": Task.from_json(values["task"]),
                "outcome": Outcome(values["outcome"]),
                "failure": Failure.from_json(values["failure"]),
                "turns": tuple(_turn(turn) for turn in values["turns"]),
                "segments": segments,
                "final_images": tuple(values.get("final_images", ())),
                "state_check": None if check is None else StateCheck(**check),
                "tool_sets": tuple(tuple(tools) for tools in values.get("tool_sets", ())),
                "chat": ChatRecord.from_json(values.get("chat")),
            }
        )


def _turn(values: Mapping[str, Any]) -> Turn:
    sequences = ("images", "calls", "pixel_calls")
    fields: dict[str, Any] = {k: tuple(v) if k in sequences else v for k, v in values.items()}
    return Turn(**fields)
