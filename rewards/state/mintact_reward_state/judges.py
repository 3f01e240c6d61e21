"""Judges that read what the environment recorded."""

from __future__ import annotations

import math
from typing import Literal

from mintact_platform import Task, Verdict
from mintact_platform.judging.judge import JudgeView


async def state(
    task: Task, trajectory: JudgeView, *, reward: Literal["success", "score"] = "success"
) -> Verdict:
    """The environment's own check of its final state, which the agent cannot reach.

    Args:
        task: not needed; the check was made for it.
        trajectory: `state_check` is read; without one the judge abstains.
        reward: `success` gives 1 or 0, `score` the check's partial credit.
    """
    check = trajectory.state_check
    if check is None:
        return Verdict("abstain", reason="the environment gave no state check")
    if not math.isfinite(check.score):
        return Verdict("environment_failure", reason=f"the state check's score is {check.score}")
    value = float(check.success) if reward == "success" else check.score
    return Verdict(
        "success" if check.success else "failure",
        reward=value,
        components={"success": float(check.success), "score": check.score},
        reason="the goal state holds" if check.success else "the goal state does not hold",
    )


async def environment_return(
    task: Task,
    trajectory: JudgeView,
    *,
    threshold: float = 1.0,
    reward: Literal["success", "return"] = "success",
) -> Verdict:
    """The summed step rewards of an ordinary gymnasium environment, against a threshold.

    Args:
        task: not needed.
        trajectory: `step_rewards` are read; a rollout without turns is abstained from.
        threshold: the return from which on the task counts as done.
        reward: `success` gives 1 or 0, `return` the return itself.
    """
    rewards = trajectory.step_rewards
    if not rewards:
        return Verdict("abstain", reason="no turn was taken")
    total = sum(rewards)
    if not math.isfinite(total):
        return Verdict("environment_failure", reason="a step reward is not finite")
    done = total >= threshold
    return Verdict(
        "success" if done else "failure",
        reward=float(done) if reward == "success" else total,
        components={"return": total},
        turn_rewards=rewards,
        reason=f"return {total:g}, threshold {threshold:g}",
    )
