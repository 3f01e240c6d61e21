"""Every template is solved by real clicks and keys, and a wrong ending told from a right one."""

from __future__ import annotations

import asyncio
import random

import pytest
from mintact_env_web.synth.capabilities import capability_of, templates
from mintact_env_web.synth.environment import Synth
from mintact_env_web.synth.generator import build, draw
from mintact_env_web.synth.tasks import SynthTasks
from mintact_env_web.synth.validate import at_random, scripted, validate

from mintact_platform.records.task import Task

AT_ONCE = 4
"""Contexts at which two cores are busy."""
EXTENDED = {t.name for t in templates().values() if t.needs}


def task_of(name, seed):
    """A task of a template on a site of its own; the next seed where its content has none."""
    while True:
        site = build(seed, include=(capability_of(name).name,))
        drawn = draw(site, name, random.Random(seed))
        if drawn is not None:
            break
        seed += 1
    params = {"site": seed, "template": name, "values": dict(drawn.params)}
    params["include"] = [capability_of(name).name]
    return Task(f"{name}/{seed}", drawn.goal, "web", params=params, seed=seed)


async def over(items, work):
    """Run `work(environment, item)` over all items, a few environments at once."""
    queue, results = list(enumerate(items)), {}

    async def one():
        environment = Synth()
        try:
            while queue:
                index, item = queue.pop()
                results[index] = await work(environment, item)
        finally:
            await environment.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one())
    return [results[index] for index in range(len(items))]


async def check(environment, task):
    return [
        f"{task.template or task.params['template']} on site {task.params['site']}: {finding}"
        for finding in await validate(
            environment, task, scripted(task, "solve"), scripted(task, "miss")
        )
    ]


@pytest.mark.runs
@pytest.mark.timeout(600)
async def test_a_hundred_training_tasks_are_solved_by_clicks_and_missed_by_wrong_ones():
    tasks = SynthTasks("train")
    # every template occurs before any occurs twice
    seen, chosen = set(), []
    for index in range(0, 10_000, 7):
        task = tasks[index]
        if task.template not in seen:
            seen.add(task.template)
            chosen.append(task)
        if len(chosen) == 100:
            break
    assert len(chosen) == 100
    assert [line for lines in await over(chosen, check) for line in lines] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_template_is_solved_on_two_sites_and_missed_by_its_wrong_ending():
    names = [name for name in sorted(templates()) if name not in EXTENDED]
    chosen = [task_of(name, 50_000 + 97 * k) for name in names for k in range(2)]
    assert [line for lines in await over(chosen, check) for line in lines] == []


async def flail(environment, task):
    """Whether an agent that sees nothing solved the task."""
    await environment.reset(seed=task.seed, options={"task": task.to_json()})
    await at_random(random.Random(task.seed), 12)(environment)
    found = await environment.evaluate()
    return found.success


@pytest.mark.runs
@pytest.mark.timeout(600)
async def test_an_agent_that_sees_nothing_solves_next_to_nothing():
    tasks = SynthTasks("validation")
    chosen = [tasks[index] for index in range(0, 500, 10)]
    assert sum(await over(chosen, flail)) <= 1
