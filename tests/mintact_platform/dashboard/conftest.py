"""A run directory as a run would leave it, written through the storage room, learning included."""

from __future__ import annotations

import io
import math
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from mintact_platform.config import dump, parse
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck, Verdict
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

START = 1_700_000_000.0
QUOTAS = {"mobile": 2, "desktop": 2, "web": 2, "tools": 2}
SWIPE = {"action": "swipe", "coordinate": [64, 100], "coordinate2": [64, 30]}
CALLS = {
    "mobile": ({"action": "click", "coordinate": [80, 48]}, SWIPE),
    "desktop": (
        {"action": "right_click", "coordinate": [480, 400]},
        {"action": "left_click_drag", "coordinate": [1100, 200]},
    ),
    "web": ({"action": "type", "text": "<b>map</b>"}, {"action": "scroll", "direction": "down"}),
}


class FakeRun:
    """Writes what a scheduler writes, on a clock of its own."""

    def __init__(self, path: Path, *, steps: int, group_size: int, domains: dict[str, int]) -> None:
        self.random = random.Random(0)
        self.now = START
        self.ulid = UlidSource(lambda: self.now, self.random.randbytes)
        self.steps, self.group_size, self.domains = steps, group_size, domains
        self.operations = []
        self.directory = RunDirectory.create(
            path, config_toml=dump(self.config(path.name)), plugins={"mintact-platform": "0.1.0"},
            metadata={},
        )  # fmt: skip

    def config(self, name: str):
        domains = {
            d: {"environment": f"micro/{d}", "tasks": f"micro/{d}:train", "quota": q}
            for d, q in self.domains.items()
        }
        trainer, rollout = {"steps": self.steps}, {"group_size": self.group_size}
        return parse({"name": name, "domains": domains, "trainer": trainer, "rollout": rollout})

    def write(self) -> Path:
        self.evaluate(0, "before", 60)
        queue: list[tuple[str, str]] = []
        for step in range(1, self.steps + 1):
            for domain in self.domains:
                while sum(d == domain for _, d in queue) < self.domains[domain]:
                    if (group := self.group(domain, step)) is not None:
                        queue.append((group, domain))
            self.train(step, queue)
            queue = []
            if step % 10 == 0:
                self.evaluate(step, "progress", 24)
        self.evaluate(self.steps, "after", 60)
        self.group(next(iter(self.domains)), self.steps, fate="open")
        self.directory.database.submit(*self.operations).result()
        self.directory.close()
        return self.directory.path

    def skill(self, domain: str, step: int) -> float:
        offset = 0.35 + 0.05 * list(self.domains).index(domain)
        return offset + (0.95 - offset) * (1 - math.exp(-2.5 * step / max(self.steps, 1)))

    def group(self, domain: str, step: int, fate: str | None = None) -> str | None:
        id, task = self.ulid(), self.task(domain, "train")
        self.operations.append(ledger.open_group(id, task, domain, self.now))
        rewards = []
        for member in range(self.group_size):
            self.now += 0.3
            broken = self.random.random() < 0.02
            success = self.random.random() < self.skill(domain, step)
            trajectory = self.trajectory(task, id, member, step, success, broken)
            path = self.directory.trajectories.save(trajectory)
            self.operations.append(ledger.add_trajectory(trajectory, path))
            if not broken:
                rewards.append(float(success))
                verdict = self.verdict(success)
                self.operations.append(ledger.set_verdict(trajectory.id, verdict, verdict.reward))
        if fate == "open":
            return None
        uniform = len(set(rewards)) < 2
        fate = "filtered" if uniform else "queued"
        version = (step - 1) // 2 - (self.random.random() < 0.2)
        reason = "uniform rewards" if uniform else ""
        self.operations.append(ledger.close_group(id, fate, reason, max(0, version), self.now))
        return None if uniform else id

    def train(self, step: int, queue: list[tuple[str, str]]) -> None:
        realised = {d: sum(x == d for _, x in queue) for d in self.domains}
        version = (step - 1) // 2
        groups = [g for g, _ in queue]
        self.operations.append(ledger.begin_step(step, groups, version, realised, step, "hash"))
        self.now += 2
        noise = self.random.random
        metrics = {
            "train/loss": {"": 0.02 - 0.03 * noise()},
            "train/grad_norm": {"": 0.4 + 0.3 * noise()},
            "train/clip_low": {d: 0.02 * noise() for d in self.domains},
            "train/entropy": {d: 1.2 * math.exp(-step / 30) + 0.1 * noise() for d in self.domains},
            "staleness/mean": {d: noise() for d in self.domains},
        }
        self.operations.append(ledger.finish_step(step, metrics, self.now))
        for name in ("idle/trainer", "idle/rollouter"):
            self.operations.append(ledger.metric(name, "", 0.3 * noise(), self.now))
        for domain in self.domains:
            for name, value in (("step_p50", 0.02), ("step_p95", 1.5), ("lost", step)):
                metric = ledger.metric(f"environment/{name}", domain, value, self.now)
                self.operations.append(metric)
        self.operations.append(ledger.metric("tokens/second", "", 900 + 200 * noise(), self.now))
        if step % 2 == 0:
            self.operations.append(ledger.push(step // 2, step, 0.4, True))

    def evaluate(self, step: int, label: str, episodes: int) -> None:
        for domain in self.domains:
            for index in range(episodes):
                self.now += 0.02
                task = self.task(domain, "test", index)
                success = self.random.random() < self.skill(domain, step)
                broken = index == 7 and label == "after"
                trajectory = self.trajectory(task, "", 0, step, success, broken)
                path = self.directory.trajectories.save(trajectory)
                verdict = None if broken else self.verdict(success)
                self.operations.append(
                    ledger.add_evaluation(
                        trajectory, path, step=step, label=label, verdict=verdict,
                        reward=verdict and verdict.reward,
                    )
                )  # fmt: skip

    def task(self, domain: str, split: str, index: int | None = None) -> Task:
        number = self.random.randrange(400) if index is None else index
        goal = f"open red & turn on green <{number}>"
        return Task(f"{domain}/{split}/{number}", goal, domain, split, template=domain)

    def verdict(self, success: bool) -> Verdict:
        label = "success" if success else "failure"
        return Verdict(
            label,
            float(success),
            reason="goal state holds" if success else "wrong page",
            judge="state",
        )

    def trajectory(self, task, group, member, step, success, broken) -> Trajectory:
        turns = tuple(self.turn(task.domain, index) for index in range(1 if broken else 3))
        digests = {image: "png" for turn in turns for image in turn.images}
        ids = np.arange(6, dtype=np.int32)
        mask = np.array([0, 0, 0, 1, 1, 1], bool)
        versions = np.where(mask, max(0, (step - 1) // 2), -1).astype(np.int32)
        segment = Segment(ids, mask, np.where(mask, -0.5, 0).astype(np.float32), versions)
        failure = Failure(
            "step", "crash", "worker ended with signal 9", "line 1\nKilled <9>", "w-3"
        )
        return Trajectory(
            id=self.ulid(), group=group, member=member, attempt=0, task=task,
            outcome=Outcome.ENVIRONMENT_FAILURE if broken else Outcome.COMPLETED,
            failure=failure if broken else None, turns=turns, segments=(segment,),
            state_check=None if broken else StateCheck(success, float(success)),
            image_extensions=digests, seconds=1.5,
        )  # fmt: skip

    def turn(self, domain: str, index: int) -> Turn:
        if index == 2:
            call = {
                "name": f"{domain}_use",
                "arguments": {"action": "terminate", "status": "success"},
            }
        elif domain == "tools":
            call = {"name": "search_tool", "arguments": {"query": "share"}}
        else:
            call = {"name": f"{domain}_use", "arguments": CALLS[domain][index]}
        images = () if domain == "tools" and index else (self.image(domain, index),)
        response = (
            f"<think>{domain} needs this & that</think><tool_call>{call}</tool_call><|im_end|>"
        )
        observation = "" if images else "found: share_5"
        return Turn(index, observation, images, response, (call,), (call,))

    def image(self, domain: str, index: int) -> str:
        return self.directory.images.put(png(domain == "desktop", index), "png")


@cache
def png(wide: bool, index: int) -> bytes:
    size = (1280, 800) if wide else (128, 128)
    image = Image.new("RGB", size, "#eceff4")
    draw = ImageDraw.Draw(image)
    unit = size[0] // 4
    for n, colour in enumerate(("#d33", "#3a3", "#36c", "#e90")):
        x, y = (n + index) % 4 * unit, n * size[1] // 4
        draw.rectangle((x + 4, y + 4, x + unit - 4, y + size[1] // 4 - 4), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def fake_run(tmp_path_factory) -> Path:
    """A finished run of 12 steps over four domains."""
    path = tmp_path_factory.mktemp("runs") / "quickstart"
    return FakeRun(path, steps=12, group_size=4, domains=QUOTAS).write()


@pytest.fixture(scope="session")
def empty_run(tmp_path_factory) -> Path:
    """A run that has just been created."""
    path = tmp_path_factory.mktemp("runs") / "fresh"
    run = FakeRun(path, steps=12, group_size=4, domains=QUOTAS)
    run.directory.close()
    return path
