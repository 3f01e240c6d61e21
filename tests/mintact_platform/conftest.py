"""A recorded run to judge again: real storage, two domains, every kind of outcome."""

from __future__ import annotations

import ctypes
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mintact_platform.config import dump, parse
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck, Verdict
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
DOMAINS = ("mobile", "web")
DOMAIN = {"environment": "micro/web", "tasks": "micro/web:train"}


@dataclass
class RunWriter:
    """Writes a run as the scheduler would."""

    directory: RunDirectory
    ulid: UlidSource = field(default_factory=UlidSource)
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.directory.path

    def group(self, domain: str, number: int, *members: tuple) -> None:
        """A group whose members are `(name, outcome, state check's success, verdict, failure)`."""
        task = Task(f"{domain}-{number}", f"order {number}", domain, params={"item": "tea"})
        group = self.ulid()
        self.directory.database.submit(ledger.open_group(group, task, domain, 1.0)).result()
        for place, (name, outcome, success, verdict, failure) in enumerate(members):
            masked = failure is not None and failure.phase != "judge"
            first = outcome if masked or outcome.counts else Outcome.COMPLETED
            trajectory = self.trajectory(task, group, place, first, success, masked and failure)
            path = self.directory.trajectories.save(trajectory)
            operations = [ledger.add_trajectory(trajectory, path)]
            if verdict is not None or (failure is not None and not masked):
                reward = verdict.reward if verdict else None
                operations.append(
                    ledger.set_verdict(trajectory.id, verdict, reward, outcome, failure)
                )
            self.directory.database.submit(*operations).result()
            self.ids[name] = trajectory.id

    def evaluation(self, name: str, domain: str, number: int, success: bool, verdict) -> None:
        task = Task(f"{domain}-{number}", f"order {number}", domain, "test")
        trajectory = self.trajectory(task, "", 0, Outcome.COMPLETED, success, None)
        path = self.directory.trajectories.save(trajectory)
        self.directory.database.submit(
            ledger.add_evaluation(trajectory, path, step=0, label="before", verdict=verdict)
        ).result()
        self.ids[name] = trajectory.id

    def trajectory(self, task, group, place, outcome, success, failure) -> Trajectory:
        picture = io.BytesIO()
        shade = int(task.id.rpartition("-")[2]) * 9 + place
        Image.new("RGB", (8, 6), (shade, 90, 10)).save(picture, "PNG")
        digest = self.directory.images.put(picture.getvalue(), "png")
        segment = Segment(
            ids=np.array([1, 7, 8, 9], np.int32),
            mask=np.array([False, False, True, True]),
            logprobs=np.array([0, 0, -0.5, -1.25], np.float32),
            versions=np.array([-1, -1, 0, 0], np.int32),
            images=(ImageSpan(digest, "png", 1, 8, 6),),
        )
        call = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [3, 4]}}
        return Trajectory(
            self.ulid(),
            group,
            place,
            0,
            task,
            outcome,
            failure=failure or None,
            turns=(Turn(0, "a shop", (digest,), "done", calls=(call,), pixel_calls=(call,)),),
            segments=(segment,),
            state_check=None if success is None else StateCheck(success, float(success)),
            image_extensions={digest: "png"},
            seconds=1.0,
        )


YES = Verdict("success", reward=1.0, judge="state", seconds=0.5)
NO = Verdict("failure", reward=0.0, judge="state", seconds=0.5, reason="no order")
UNSURE = Verdict("abstain", reason="cannot tell", judge="state")
BLAME = Verdict("environment_failure", reason="a blank page", judge="state")


def write(directory: RunDirectory) -> RunWriter:
    """Sixteen trajectories; fourteen can be judged, twelve of those have a state check."""
    run, done, turns = RunWriter(directory), Outcome.COMPLETED, Outcome.MAX_TURNS
    late = Failure("judge", "JudgeError", "no answer within 120 s")
    abstained = Failure("judge", "abstain", "cannot tell")
    blamed = Failure("judge", "environment_failure", "a blank page")
    crashed = Failure("step", "crash", "the worker died")
    for base, domain in ((0, "mobile"), (4, "web")):
        run.group(domain, base, (f"{domain}-good", done, True, YES, None),
                  (f"{domain}-bad", done, False, NO, None))  # fmt: skip
        run.group(domain, base + 1, (f"{domain}-fooled", done, False, YES, None),
                  (f"{domain}-turns", turns, False, NO, None))  # fmt: skip
    run.group("web", 8, ("masked", Outcome.JUDGE_FAILURE, True, None, late),
              ("unsure", Outcome.JUDGE_FAILURE, False, UNSURE, abstained),
              ("blamed", Outcome.ENVIRONMENT_FAILURE, None, BLAME, blamed))  # fmt: skip
    run.group("mobile", 9, ("crashed", Outcome.ENVIRONMENT_FAILURE, None, None, crashed),
              ("cancelled", Outcome.CANCELLED, None, None,
               Failure("generate", "cancelled", "the run ended")),
              ("unjudged", done, True, None, None))  # fmt: skip
    run.evaluation("held-out", "mobile", 10, True, YES)
    run.evaluation("held-out-failed", "mobile", 11, None, None)
    return run


@pytest.fixture
def live_run(tmp_path):
    """The recorded run while its scheduler still has it open."""
    config = {"name": "shop", "domains": {domain: DOMAIN for domain in DOMAINS}}
    directory = RunDirectory.create(
        tmp_path / "runs" / "shop",
        config_toml=dump(parse(config)),
        plugins={},
        metadata={"verb": "train"},
    )
    yield write(directory)
    directory.close()


@pytest.fixture
def recorded_run(live_run):
    """The recorded run, finished."""
    live_run.directory.close()
    return live_run


@pytest.fixture
def originals():
    """`originals(run)`: the bytes of everything in a run directory but its judgements."""

    def read(path: Path) -> dict[str, bytes]:
        return {
            str(file.relative_to(path)): file.read_bytes()
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.relative_to(path).parts[0] != "judgements"
        }

    return read


@pytest.fixture
def lines():
    """`lines(run)`: what stands in its judgements files."""

    def read(path: Path) -> list[dict]:
        files = sorted((path / "judgements").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    return read


@pytest.fixture
def trial_judges(monkeypatch, tmp_path):
    """Judges by `trial_judges:<name>`, also in child processes; returns the file of calls."""
    modules = Path(__file__).parent / "evaluation" / "modules"
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("TRIAL_CALLS", str(calls))
    return calls


@pytest.fixture
def unprivileged():
    """Options of `subprocess` for a child to which a file's mode applies, also as root."""

    def drop() -> None:
        # out of the bounding set, `CAP_DAC_OVERRIDE` is lost at the next exec; others lack it
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)

    return {"preexec_fn": drop}
