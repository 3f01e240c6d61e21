"""Finished trajectories as a run would have recorded them, for tests of judges."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mintact_platform.judging.judge import JudgeView
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck
from mintact_platform.storage.images import image_digest

WIDTH, HEIGHT = 160, 120
_PROMPT, _ANSWER = 12, 8
"""Tokens before a response, and of it."""


@dataclass(frozen=True)
class _Images:
    """Encoded screenshots by digest."""

    data: Mapping[str, bytes] = field(default_factory=dict)

    def __call__(self, digest: str, extension: str) -> bytes:
        return self.data[digest]


def sample_trajectory(
    *,
    success: bool | None = True,
    turns: int = 3,
    images: bool = True,
    outcome: Outcome = Outcome.COMPLETED,
    answer: str = "The red switch is on.",
    rewards: Sequence[float] | None = None,
    task: Task | None = None,
    seed: int = 0,
) -> JudgeView:
    r"""A plausible trajectory, as a judge reads it; equal arguments give equal trajectories.

    Args:
        success: what the environment's state check says; None for an environment without one.
        turns: how many; the last one ends the task.
        images: whether a screenshot is shown before each turn.
        outcome: how the rollout ended; where it does not count for learning there is a failure.
        answer: the agent's last words.
        rewards: step rewards, one a turn; None gives 1 for the last turn of a success, else 0.
        task: the task; None takes one of a phone.
        seed: of the pictures and token ids.

    Example:
        >>> view = sample_trajectory(success=False, turns=2)
        >>> len(view.turns), view.images(0)[0][:4], view.state_check.success
        (2, b'\x89PNG', False)
    """
    task = task or Task("phone/1", "turn on the red switch", "mobile", max_turns=max(turns, 1))
    shots = [_screenshot(seed, k) for k in range(turns)] if images else []
    digests = [image_digest(shot) for shot in shots]
    last = 1.0 if success else 0.0
    earned = [0.0] * (turns - 1) + [last] if rewards is None else list(rewards)
    trajectory = Trajectory(
        id=f"01CONFORMANCE{seed:013d}",
        group="01CONFORMANCEGROUP00000000",
        member=0,
        attempt=0,
        task=task,
        outcome=outcome,
        failure=None if outcome.counts else Failure("step", "crash", "the worker died"),
        turns=tuple(_turn(k, turns, digests, answer, earned[k]) for k in range(turns)),
        segments=(_segment(turns, digests, seed),) if turns else (),
        state_check=None if success is None else StateCheck(success, last, {"switch": "red"}),
        image_extensions=dict.fromkeys(digests, "png"),
        seconds=1.5 * turns,
    )
    return JudgeView(trajectory, _Images(dict(zip(digests, shots, strict=True))))


def usual_trajectories() -> Iterator[tuple[str, JudgeView]]:
    """What a judge meets in a run, each with its description."""
    yield "a success", sample_trajectory()
    yield "a failure", sample_trajectory(success=False, answer="I could not find it.", seed=1)
    yield "one without a state check", sample_trajectory(success=None, seed=2)
    yield "one without images", sample_trajectory(images=False, seed=3)
    yield (
        "one that ran out of turns",
        sample_trajectory(success=False, turns=5, outcome=Outcome.MAX_TURNS, seed=4),
    )
    yield (
        "one whose agent wrote nothing usable",
        sample_trajectory(success=False, turns=1, outcome=Outcome.AGENT_ERROR, answer="", seed=5),
    )


def empty_trajectory() -> JudgeView:
    """The environment failed before the agent saw anything: there is nothing to judge."""
    return sample_trajectory(
        success=None, turns=0, outcome=Outcome.ENVIRONMENT_FAILURE, images=False, seed=6
    )


def _turn(k: int, turns: int, digests: Sequence[str], answer: str, reward: float) -> Turn:
    last = k == turns - 1
    arguments = (
        {"action": "terminate", "status": "success"}
        if last
        else {"action": "click", "coordinate": [100 * k + 50, 500]}
    )
    call = {"name": "mobile_use", "arguments": arguments}
    pixels = {"name": "mobile_use", "arguments": {**arguments}}
    if not last:
        pixels["arguments"] = {"action": "click", "coordinate": [16 * k + 8, 60]}
    words = answer if last else f"look at row {k}"
    return Turn(
        index=k,
        observation="turn on the red switch" if k == 0 else "",
        images=(digests[k],) if digests else (),
        response=f"<think>{words}</think><tool_call>{call}</tool_call>".replace("'", '"'),
        calls=(call,),
        pixel_calls=(pixels,),
        reward=reward,
        generate_seconds=1.0,
        step_seconds=0.5,
    )


def _segment(turns: int, digests: Sequence[str], seed: int) -> Segment:
    rng = np.random.default_rng(seed)
    tokens = turns * (_PROMPT + _ANSWER)
    mask = np.arange(tokens) % (_PROMPT + _ANSWER) >= _PROMPT
    spans = [
        ImageSpan(digest, "png", k * (_PROMPT + _ANSWER) + 2, WIDTH, HEIGHT)
        for k, digest in enumerate(digests)
    ]
    return Segment(
        ids=rng.integers(5, 500, tokens, dtype=np.int32),
        mask=mask,
        logprobs=np.where(mask, -rng.random(tokens, dtype=np.float32), 0).astype(np.float32),
        versions=np.where(mask, 3, -1).astype(np.int32),
        images=tuple(spans),
    )


def _screenshot(seed: int, k: int) -> bytes:
    """A screen with one coloured block, which moves on with the turns."""
    # imported here: trajectories without images need no pillow
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH, HEIGHT), (235, 238, 245))
    draw = ImageDraw.Draw(image)
    draw.text((4, 4), f"screen {seed}.{k}", fill=(20, 20, 20))
    draw.rectangle((16 * k % 120, 50, 16 * k % 120 + 30, 80), fill=(200, 40 * k % 200, 40))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
