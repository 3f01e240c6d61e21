"""Toy environments written for verifiers, played with its stand-in or with the real package."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.records.task import Task

HERE = Path(__file__).parent
STANDIN, TOYS = HERE / "standin", HERE / "toys"
ID = "toy-games"


def answer(text):
    return {"name": "answer", "arguments": {"text": text}}


def tool(name, **arguments):
    return {"name": name, "arguments": arguments}


@pytest.fixture
def standin(monkeypatch):
    """The stand-in and the toys, importable here; nothing of them is left afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.syspath_prepend(str(TOYS))
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("verifiers", "datasets", "toy_games") or (
            name.startswith("mintact_plugin_verifiers.")
        ):
            del sys.modules[name]


@pytest.fixture
def make(standin):
    """Builds an environment of a kind, here."""
    from mintact_plugin_verifiers.environment import VerifiersEnvironment

    return lambda kind, **options: VerifiersEnvironment(id=ID, args={"kind": kind, **options})


@pytest.fixture
def play_by_lease(monkeypatch, tmp_path):
    """Plays every game through leases of a real server: `await play(python, *paths)`."""

    async def play(python, *paths):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
        kinds = ("reverse", "guess", "shop", "shade")
        pools = {
            kind: PoolSpec(f"verifiers/{ID}", {"args": {"kind": kind}}, instances=1, python=python)
            for kind in kinds
        }
        manager = EnvironmentManager(
            pools,
            deadlines=Deadlines(create=300, reset=60, step=60, evaluate=60),
            log_directory=tmp_path,
            incarnation=1,
        )
        await manager.start()
        try:
            await _games(manager)
        except BaseException:
            for log in tmp_path.rglob("*.log"):
                print(log, log.read_text()[-2000:], sep="\n")
            raise
        finally:
            await manager.close()

    return play


async def _games(manager):
    async with playing(manager, "reverse") as (lease, first):
        # the task says another goal than the row's prompt: the agent must see the prompt
        assert first.text == "Answer with the word alone.\n\nReverse abc."
        last = await lease.step(step=0, action=answer("cba"), deadline=60)
        assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
        check = await lease.evaluate(deadline=60)
        assert (check.success, check.score) == (True, 1.0)
        assert check.details["metrics"]["right"] == 1.0
        assert "is_a_number" in check.details["errors"]
    async with playing(manager, "guess", row=1) as (lease, first):
        told = [
            await lease.step(step=k, action=answer(text), deadline=60)
            for k, text in enumerate(("5", "8", "7"))
        ]
        assert [seen.text for seen in told] == ["It is higher.", "It is lower.", "You found it."]
        assert [seen.reward for seen in told] == [0.0, 0.0, 1.0]
        assert [seen.terminated for seen in told] == [False, False, True]
    async with playing(manager, "shop") as (lease, first):
        assert [schema["function"]["name"] for schema in first.tools] == ["price", "weigh"]
        assert "item" in first.tools[0]["function"]["parameters"]["properties"]
        calls = tool("price", item="pear"), tool("price", item="plum"), tool("weigh", item="plum")
        told = [
            (await lease.step(step=k, action=call, deadline=60)).text
            for k, call in enumerate(calls)
        ]
        assert told[:2] == ["3", "2"]
        assert "count" in told[2], "a tool called wrongly says what it misses"
        last = await lease.step(step=3, action=answer("8"), deadline=60)
        assert (last.reward, last.terminated) == (1.0, True)
    async with playing(manager, "shade") as (lease, first):
        assert [(image.width, image.height, image.format) for image in first.images] == [
            (2, 2, "png")
        ]
        assert (await lease.step(step=0, action=answer("dark"), deadline=60)).reward == 0.0


@contextlib.asynccontextmanager
async def playing(manager, kind, row=0):
    task = Task(f"{kind}/{row}", "play", "tools", params={"part": "train", "row": row})
    async with manager.acquire(kind) as lease:
        yield lease, await lease.reset(episode=f"{kind}/{row}", task=task, seed=0, deadline=60)
