"""A finished trajectory to judge."""

import numpy as np
import pytest

from mintact_platform.judging.judge import JudgeView
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck


@pytest.fixture
def view():
    turns = (
        Turn(0, "go", ("aa",), "<think>x</think>", calls=({"name": "f", "arguments": {"x": [1]}},)),
        Turn(1, "", ("aa", "bb"), "done", reward=1.0),
    )
    segment = Segment(
        np.arange(3, dtype=np.int32),
        np.array([False, True, True]),
        np.zeros(3, np.float32),
        np.array([-1, 0, 0], np.int32),
    )
    trajectory = Trajectory(
        "t1",
        "g1",
        0,
        0,
        Task("1", "do it", "web", params={"k": [1]}),
        Outcome.COMPLETED,
        turns=turns,
        segments=(segment,),
        state_check=StateCheck(True, 1.0, {"seen": [1]}),
        image_extensions={"aa": "png", "bb": "jpg"},
    )
    return JudgeView(trajectory, lambda digest, extension: f"{digest}.{extension}".encode())
