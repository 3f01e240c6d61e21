"""MiniWoB++ through the action space: scripted players, judged by the pages' own reward."""

import asyncio

import pytest
from acme_miniwob.environment import PAGES, MiniWob
from acme_miniwob.hand import Hand
from acme_miniwob.solve import DRAGS, MISSES, SOLVERS
from acme_miniwob.tasks import task, tasks

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec

pytestmark = pytest.mark.browser

FEW = (
    "click-button",
    "click-checkboxes",
    "click-collapsible-nodelay",
    "click-dialog",
    "click-menu-2",
    "click-tab-2-hard",
    "choose-date-easy",
    "choose-list",
    "copy-paste",
    "email-inbox-delete",
    "enter-date",
    "enter-text",
    "form-sequence-3",
    "login-user",
    "terminal",
    "unicode-test",
)
"""One of every kind: links, lists, tabs, dialogs, dates, the clipboard, a shell."""
FEW_MISSES = ("click-test-2", "click-option", "enter-password", "terminal")
AT_ONCE = 4


async def play(environment, page, seed, table):
    """One episode; what speaks against it, None when the reward agrees with the script."""
    options = {"task": task(page, seed).to_json()}
    _, info = await environment.reset(seed=seed, options=options)
    hand = Hand(environment, info["goal"])
    try:
        async with asyncio.timeout(120):
            await table[page](hand)
    except (AssertionError, LookupError, ValueError) as error:
        return f"{page} {seed}: {error!r} at {info['goal']!r}"
    check = await environment.evaluate()
    if check.success is not (table is SOLVERS):
        return f"{page} {seed}: {check} at {info['goal']!r}"
    return None


async def over(pages, seeds, table):
    """Play pages with every seed, some at once; the complaints."""
    queue = [(page, seed) for seed in seeds for page in pages]
    complaints = []

    async def one():
        environment = MiniWob()
        try:
            while queue:
                complaints.append(await play(environment, *queue.pop(0), table))
        finally:
            await environment.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one())
    return [complaint for complaint in complaints if complaint]


@pytest.mark.runs
async def test_some_pages_of_every_kind_are_solved_and_their_own_reward_agrees():
    assert await over(FEW, [1], SOLVERS) == []


async def test_wrong_endings_are_not_rewarded():
    assert await over(FEW_MISSES, [1], MISSES) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_page_that_has_a_script_is_solved_on_two_seeds():
    assert len(SOLVERS.keys() - DRAGS) >= 60
    assert await over(sorted(SOLVERS), [0, 1], SOLVERS) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_no_wrong_ending_is_rewarded():
    assert await over(sorted(MISSES), [0, 1], MISSES) == []


async def test_the_same_seed_asks_the_same_and_looks_the_same():
    environment = MiniWob()
    try:
        seen = []
        for seed in (3, 4, 3):
            options = {"task": task("click-checkboxes-large", seed).to_json()}
            observation, info = await environment.reset(seed=seed, options=options)
            seen.append((info["goal"], bytes(observation["screenshot"])))
    finally:
        await environment.close()
    assert seen[0] == seen[2] != seen[1]


def test_the_task_set_names_every_page_and_splits_do_not_meet():
    train, test = (tasks(split=split) for split in ("train", "test"))
    assert {one.template for one in train} == {path.stem for path in PAGES.glob("*.html")}
    assert {one.seed for one in train}.isdisjoint(one.seed for one in test)
    assert len({one.id for one in (*train, *test)}) == len(train) + len(test)
    assert [one.template for one in tasks(split="test", pages=("click-test",))] == [
        "click-test"
    ] * 5


async def test_a_page_is_played_through_a_lease(importable_by_workers, tmp_path):
    pool = PoolSpec("acme_miniwob.environment:MiniWob", {}, instances=1)
    manager = EnvironmentManager(
        {"web": pool}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    try:
        async with manager.acquire("web") as lease:
            page = task("click-test", 0)
            seen = await lease.reset(episode="e", task=page, seed=0, deadline=90)
            assert (seen.text, seen.images[0].width) == ("Click the button.", 500)
            call = {
                "name": "browser_use",
                "arguments": {"action": "click", "coordinate": [28, 139]},
            }
            seen = await lease.step(step=0, action=call, deadline=60)
            assert (seen.terminated, seen.reward) == (True, 1.0)
            assert (await lease.evaluate(deadline=60)).success
    finally:
        await manager.close()
