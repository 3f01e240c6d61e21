"""What a synthetic site must prove before a task on it is used; the same for every generator.

A site is admitted when it loads without an error and without a network, and a task when its check
is false at the start, true after a solver, and false after a plausible wrong ending.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from playwright.async_api import Page

from mintact_env_web.synth.capabilities import templates
from mintact_env_web.synth.oracle import PageHand, random_call
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

Ending = Callable[["Driven"], Awaitable[str | None]]
"""Drives an episode to an end; the answer it stopped with."""


class Faults(Protocol):
    """A source that notes what its site does wrong.

    Attributes:
        errors: script errors and failed loads of the running episode.
    """

    errors: list[str]


class Driven(Protocol):
    """An environment in an episode, as validation sees it."""

    @property
    def page(self) -> Page:
        """The page in front."""
        ...

    @property
    def source(self) -> Faults:
        """Where the pages come from."""
        ...

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As in gymnasium."""
        ...

    async def step(self, action: Mapping[str, Any]) -> tuple[Any, float, bool, bool, Any]:
        """As in gymnasium."""
        ...

    async def evaluate(self) -> StateCheck | None:
        """The check."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a task or a site is refused.

    Attributes:
        what: `load`, `start`, `solve` or `miss`.
        reason: one line.
    """

    what: str
    reason: str


async def validate(
    environment: Driven, task: Task, solve: Ending, miss: Ending | None, *, limit: float = 120.0
) -> list[Finding]:
    """Play a task three times: not at all, rightly, wrongly.

    Args:
        environment: where.
        task: which.
        solve: a scripted solver or a model.
        miss: a wrong ending, if there is one.
        limit: seconds for each.

    Returns:
        What speaks against the task; empty when it is good.
    """
    plays: list[tuple[str, Ending | None, bool]] = [
        ("start", _nothing, False),
        ("solve", solve, True),
        ("miss", miss, False),
    ]
    found: list[Finding] = []
    for what, ending, wanted in plays:
        if ending is not None:
            found += await attempt(environment, task, what, ending, wanted, limit=limit)
    return found


async def attempt(
    environment: Driven, task: Task, what: str, ending: Ending, wanted: bool, *, limit: float
) -> list[Finding]:
    """Play a task once.

    Args:
        environment: where.
        task: which.
        what: name of the play in a finding.
        ending: how it is played.
        wanted: what the check has to say in the end.
        limit: seconds.

    Returns:
        What speaks against the task.
    """
    try:
        async with asyncio.timeout(limit):
            return await _play(environment, task, what, ending, wanted)
    except Exception as error:
        line = (str(error).splitlines() or [""])[0]
        return [Finding(what, f"{type(error).__name__}: {line}")]


async def _play(
    environment: Driven, task: Task, what: str, ending: Ending, wanted: bool
) -> list[Finding]:
    await environment.reset(seed=task.seed, options={"task": task.to_json()})
    answer = await ending(environment)
    if answer is not None:
        await environment.step(_call("stop", response=answer))
    check = await environment.evaluate()
    found = [Finding("load", error) for error in environment.source.errors]
    if check is None:
        found.append(Finding(what, "the task has no check"))
    elif check.success != wanted:
        found.append(Finding(what, f"the check says {check.success}, {check.details}"))
    return found


def scripted(task: Task, way: str) -> Ending:
    """The template's own solver (`solve`) or wrong ending (`miss`)."""
    template = templates()[task.params["template"]]

    async def play(environment: Driven) -> str | None:
        async def act(call: Mapping[str, Any]) -> None:
            await environment.step(call)

        hand = PageHand(lambda: environment.page, act)
        answer: str | None = await getattr(template, way)(hand, task.params["values"])
        return answer

    return play


def at_random(rng: random.Random, steps: int, width: int = 1280, height: int = 720) -> Ending:
    """An agent that sees nothing and stops after some steps."""

    async def play(environment: Driven) -> str | None:
        for _ in range(steps):
            *_, terminated, truncated, _ = await environment.step(random_call(rng, width, height))
            if terminated or truncated:
                return None
        return "done"

    return play


async def _nothing(environment: Driven) -> None:
    return None


def _call(action: str, **arguments: Any) -> dict[str, Any]:
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}
