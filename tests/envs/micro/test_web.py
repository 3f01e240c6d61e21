import asyncio
import itertools
import random
from dataclasses import replace

import pytest
import pytest_asyncio
from mintact_env_micro import tasks
from mintact_env_micro.browser import shared_browser
from mintact_env_micro.page import READ_STATE
from mintact_env_micro.scene import Layout
from mintact_env_micro.tiles import PageTiles
from mintact_env_micro.web import WORDS, WebState
from mintact_env_micro.web_environment import Web

from mintact_platform.environments.asyncenv import AsyncEnvironment
from mintact_platform.errors import EnvironmentFailure

# one loop and so one browser for the whole file
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
LAYOUT = Layout()


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def kept():
    """Keeps the browser between tests."""
    yield await shared_browser().acquire()
    await shared_browser().release()


@pytest_asyncio.fixture(loop_scope="module")
async def web():
    environment = Web()
    yield environment
    await environment.close()


def call(action, **arguments):
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}


def click(*point):
    return call("click", coordinate=list(point))


async def play(environment, task, choose):
    """Play a task live and on the state at once; both check and all screenshots of both."""
    observation, info = await environment.reset(seed=0, options={"task": task.to_json()})
    assert info["goal"] == task.goal
    state = WebState.start(task.seed, LAYOUT)
    shown = [(observation["screenshot"], state)]
    for _ in range(task.max_turns):
        action = choose(state)
        state = state.apply(action["name"], action["arguments"])
        observation, reward, terminated, truncated, _ = await environment.step(action)
        assert (reward, truncated, terminated) == (0.0, False, state.ended)
        shown.append((observation["screenshot"], state))
        if terminated:
            break
    live = await environment.evaluate()
    assert live == state.check()
    return live, shown


async def test_it_is_an_async_environment():
    assert isinstance(Web(), AsyncEnvironment)


async def test_the_oracle_solves_fifty_tasks_in_eight_contexts_of_one_browser(kept):
    environments = [Web() for _ in range(8)]
    chosen = tasks.web(split="validation")[:56]

    async def work(k):
        results = [
            (await play(environments[k], task, lambda s: s.decisions()[0].call.to_json()))[0]
            for task in chosen[k::8]
        ]
        return [check.success for check in results]

    try:
        solved = await asyncio.gather(*(work(k) for k in range(8)))
        assert len(kept.contexts) == 8
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))
    assert list(itertools.chain(*solved)) == [True] * 56
    assert kept.contexts == []


async def test_live_page_and_state_agree_on_random_walks_pixel_by_pixel(web):
    rng = random.Random(0)
    tiles = PageTiles(LAYOUT)
    points = [[x, y] for x in (16, 28, 110) for y in (16, 48, 80, 112)] + [[48, 112], [0, 0]]

    def wander(state):
        kind = rng.random()
        if kind < 0.55:
            return call("click", coordinate=rng.choice(points))
        if kind < 0.9 and not (state.focus and state.typed[state.fields.index(state.focus)]):
            return call("type", text=rng.choice(WORDS), enter=rng.random() < 0.2)
        return call("wait")

    compared = 0
    for task in tasks.web(split="train")[:12]:
        task = replace(task, max_turns=8)
        _, shown = await play(web, task, wander)
        for screenshot, state in shown:
            assert (screenshot == tiles.render(state)).all(), state
            compared += 1
    assert compared > 100


async def test_the_right_calls_in_another_order_fail(web):
    task = tasks.web(split="train")[0]
    await web.reset(options={"task": task.to_json()})
    field, word, send, stop = right_calls(WebState.start(task.seed, LAYOUT))
    for action in (send, field, word, stop):
        await web.step(action.to_json())
    assert not (await web.evaluate()).success


def right_calls(state):
    calls = []
    while not state.ended:
        calls.append(state.decisions()[0].call)
        state = state.apply(calls[-1].name, calls[-1].arguments)
    return calls


@pytest.mark.parametrize("text", ["<b>&amp;</b>", "'\"\\", "héllo wörld", "地图", "🙂 ok"])
async def test_typed_text_arrives_exactly(web, text):
    await web.reset(seed=3)
    await web.step(click(16, 16))
    await web.step(call("type", text=text))
    seen = await web._view.page.evaluate(READ_STATE)
    assert seen["typed"] == [text, "", ""]
    assert not seen["sent"]


async def test_enter_submits_only_when_asked(web):
    await web.reset(seed=3)
    await web.step(call("type", text="map", coordinate=[16, 48], enter=True))
    await web.step(call("stop", response=""))
    details = (await web.evaluate()).details
    assert details["sent"]
    assert details["ended"]


async def test_a_sent_form_takes_no_more_text(web):
    await web.reset(seed=3)
    box = WebState.start(3, LAYOUT).elements()[-1][1]
    await web.step(click(int(box[0]) + 9, 112))
    await web.step(call("type", text="map", coordinate=[16, 16]))
    assert (await web._view.page.evaluate(READ_STATE))["typed"] == ["", "", ""]


@pytest.mark.parametrize(
    "action",
    [
        None,
        {},
        {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [16, 16]}},
        call("click"),
        call("click", coordinate=[500, 1]),
        call("type", text=None),
        call("press", key="F5"),
        call("go_back"),
        call("fly"),
    ],
)
async def test_a_useless_action_does_nothing_and_says_so(web, action):
    before, _ = await web.reset(seed=4)
    after, _, terminated, _, info = await web.step(action)
    assert "nothing happens" in info["note"]
    assert not terminated
    assert (before["screenshot"] == after["screenshot"]).all()


async def test_nothing_of_an_episode_reaches_the_next(web):
    fresh, _ = await web.reset(seed=5)
    await web.step(click(16, 16))
    await web.step(call("type", text="map", enter=True))
    await web.step(call("stop"))
    again, _ = await web.reset(seed=5)
    assert (fresh["screenshot"] == again["screenshot"]).all()
    assert (await web.evaluate()).details == {"ended": False, "text": False, "sent": False}


async def test_a_page_that_is_not_this_episodes_is_an_environment_failure(web):
    await web.reset(seed=5)
    await web._view.page.evaluate("document.documentElement.dataset.episode = 'other'")
    with pytest.raises(EnvironmentFailure, match="not this episode's"):
        await web.evaluate()


async def test_a_step_before_the_reset_is_an_environment_failure():
    with pytest.raises(EnvironmentFailure, match="reset first"):
        await Web().step(click(1, 1))


async def test_garbage_is_no_observation():
    environment = Web(fault="garbage", fault_after=0)
    await environment.reset(seed=1)
    observation, *_ = await environment.step(call("stop"))
    assert observation not in environment.observation_space
    await environment.close()


async def test_a_hang_can_be_cancelled():
    environment = Web(fault="hang", fault_after=0)
    await environment.reset(seed=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await environment.step(call("stop"))
    await environment.close()
