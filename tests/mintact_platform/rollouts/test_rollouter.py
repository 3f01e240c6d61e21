"""Slots bound what generates; resets run before a slot is needed, under the episode's own name."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mintact_platform.config import Deadlines
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.rollouts import rollouter as module
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings
from mintact_platform.rollouts.rollouter import DomainTools, Rollouter

SETTINGS = EpisodeSettings(1.0, 8, 100, 3, 3, "system", Deadlines(), seed=7)


class Lease:
    instance = "i"

    def __init__(self, log):
        self.log = log

    async def reset(self, *, episode, task, seed, deadline):
        self.log.append(f"reset {episode} {seed}")

    async def evaluate(self, *, deadline):
        return None


@dataclass
class Manager:
    """As many leases as asked for."""

    log: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def acquire(self, pool, *, episode=None):
        self.log.append(f"acquire {episode}")
        yield Lease(self.log)

    def prepare(self, pool, *, episode, task, seed):
        self.log.append(f"prepare {pool} {episode} {seed}")
        return True

    def forget(self, pool, episode):
        self.log.append(f"forget {pool} {episode}")


class Thinking(Episode):
    """Its turns last until the test lets them end."""

    gate: asyncio.Event
    log: list[str]

    async def _turns(self, lease, observation):
        self.log.append(f"turns {self.key.id}")
        await self.gate.wait()
        return Outcome.COMPLETED


@pytest.fixture
def played(monkeypatch):
    manager, gate = Manager(), asyncio.Event()
    monkeypatch.setattr(Thinking, "gate", gate, raising=False)
    monkeypatch.setattr(Thinking, "log", manager.log, raising=False)
    monkeypatch.setattr(module, "Episode", Thinking)
    unused: Any = SimpleNamespace(generate=None)
    domains = {"web": DomainTools(unused, unused, SETTINGS)}
    rollouter = Rollouter(
        domains, manager, unused, chat=unused, vision=unused, images=unused, active=1
    )
    return SimpleNamespace(rollouter=rollouter, log=manager.log, gate=gate)


async def test_a_rollout_that_waits_for_a_slot_is_reset_already(played):
    def play(name, seed):
        task = Task(name, "goal", "web", seed=seed)
        return asyncio.create_task(played.rollouter.play("web", task, EpisodeKey(name)))

    playing = [play("a", 1), play("b", None)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert played.log == ["acquire a", "reset a 1", "turns a", "acquire b", "reset b 7"]
    assert played.rollouter.running == 2
    played.gate.set()
    trajectories = await asyncio.gather(*playing)
    assert played.log[-1] == "turns b"
    assert [one.outcome for one in trajectories] == [Outcome.COMPLETED] * 2
    assert played.rollouter.running == 0


async def test_a_rollout_is_prepared_with_the_seed_it_is_played_with(played):
    task = Task("t", "goal", "web")
    assert played.rollouter.prepare("web", task, "e")
    played.rollouter.forget("web", "e")
    played.gate.set()
    await played.rollouter.play("web", task, EpisodeKey("e"))
    assert played.log == [
        "prepare web e 7",
        "forget web e",
        "acquire e",
        "reset e 7",
        "turns e",
    ]
