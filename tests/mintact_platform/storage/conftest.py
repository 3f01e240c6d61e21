from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck
from mintact_platform.storage.directory import RunDirectory


class Maker:
    """Makes small trajectories whose image is stored in a run."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    def task(self, domain: str = "web") -> Task:
        return Task(f"{domain}-1", "order tea", domain, params={"item": "tea"}, tags=("a", "b"))

    def trajectory(self, id: str, group: str = "", member: int = 0, domain: str = "web"):
        digest = self.directory.images.put(b"pixels", "png")
        segment = Segment(
            ids=np.array([1, 7, 8, 9], np.int32),
            mask=np.array([False, False, True, True]),
            logprobs=np.array([0, 0, -0.5, -1.25], np.float32),
            versions=np.array([-1, -1, 2, 3], np.int32),
            images=(ImageSpan(digest, "png", 1, 40, 30),),
        )
        turn = Turn(
            0, "a shop", (digest,), "<think>x</think>", calls=({"name": "stop", "arguments": {}},)
        )
        return Trajectory(
            id,
            group,
            member,
            0,
            self.task(domain),
            Outcome.COMPLETED,
            turns=(turn,),
            segments=(segment,),
            state_check=StateCheck(True, 1.0, {"orders": 1}),
            image_extensions={digest: "png"},
            seconds=2.5,
        )


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    made = RunDirectory.create(
        tmp_path / "runs" / "tea",
        config_toml='name = "tea"\n',
        plugins={"mintact-platform": "0.1.0"},
        metadata={"verb": "train"},
    )
    yield made
    made.close()


@pytest.fixture
def make(directory: RunDirectory) -> Maker:
    return Maker(directory)
