"""The page in a real browser, driven as a person does: by mouse and keyboard.

With `MINTACT_TEST_SHOTS=DIR` every state is kept as pictures, light and dark, wide and narrow.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
from mintact_env_micro.browser import browser_path, sandbox_flags
from mintact_env_micro.scene import Layout
from mintact_env_micro.tasks import DOMAINS

from mintact_platform.actions.grid import Grid
from mintact_platform.datasets import saved

pytestmark = pytest.mark.browser
WALL = "stand_ins_of_play:Wall"
BUTTONS = {"right_click": "right", "middle_click": "middle"}


@pytest.fixture
async def browser():
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=browser_path(), args=["--disable-gpu", *sandbox_flags()]
        )
        yield running
        await running.close()


@pytest.fixture
async def visit(browser, open_page):
    """Open the page of a command line; anything the browser complains about fails the test."""
    complaints: list[str] = []

    async def open_it(*words, phase="waiting"):
        address = await open_page(*words)
        page = await browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(60_000)
        await page.clock.install()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type in ("error", "warning") and "409" not in said.text
                else None
            ),
        )
        await page.goto(address)
        await page.wait_for_selector(f"body[data-phase={phase}]")
        return page

    yield open_it
    assert complaints == []


async def shoot(page, name):
    folder = os.environ.get("MINTACT_TEST_SHOTS")
    if not folder:
        return
    for scheme, width in itertools.product(("light", "dark"), (1280, 800)):
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 860})
        await page.wait_for_timeout(300)
        path = Path(folder) / f"{name}-{scheme}-{width}.png"
        await page.screenshot(path=path, full_page=True)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 860})
    await page.wait_for_timeout(100)


async def turned(page, turns, phases=("waiting", "ended")):
    """Wait until so many turns are shown and it is a person's turn again, or over."""
    wanted = ", ".join(f"body[data-phase={phase}]" for phase in phases)
    await page.wait_for_function(
        "([turns, wanted]) => document.querySelectorAll('#strip figure').length === turns"
        " && document.querySelector(wanted)",
        arg=[turns, wanted],
    )


async def stop_clock(page):
    """From here on time passes on the page as the test says, however long a gesture takes us."""
    now = await page.evaluate("Date.now()")
    await page.clock.pause_at(now / 1000 + 3600)


async def click(page, x, y, button="left"):
    """A short click, and the time in which a second one would have made it a double click."""
    await page.mouse.click(x, y, button=button)
    await page.clock.run_for(300)


async def at(page, x, y):
    """The place of a screenshot's pixel in the window."""
    await page.wait_for_function("document.querySelector('#screen').naturalWidth > 0")
    box = await page.locator("#screen").bounding_box()
    width, height = await page.evaluate(
        "[document.querySelector('#screen').naturalWidth,"
        " document.querySelector('#screen').naturalHeight]"
    )
    return box["x"] + (x + 0.5) * box["width"] / width, box["y"] + (y + 0.5) * box[
        "height"
    ] / height


def sent(*pixels, size=(300, 200)):
    """Where the environment is told a pixel is, which the grid may move by one."""
    grid, words = Grid(), []
    for x, y in pixels:
        there = [grid.to_pixel(grid.to_grid(v, e), e) for v, e in zip((x, y), size, strict=True)]
        words.append(f"({there[0]}, {there[1]})")
    return " ".join(words)


async def perform(page, call):
    """Do a call as a person would."""
    arguments = dict(call.arguments)
    verb = arguments.pop("action", call.name)
    if "coordinate" in arguments and "text" not in arguments:
        x, y = await at(page, *arguments["coordinate"])
        await click(page, x, y, BUTTONS.get(verb, "left"))
        return
    await page.click(f"#chips button[data-action='{verb}']")
    for name, value in arguments.items():
        field = page.locator(f"#field-{name}")
        if await field.evaluate("field => field.tagName") == "SELECT":
            await field.select_option(label=str(value))
        else:
            await field.fill(str(value))
    await page.click("#form button[type=submit]")


@pytest.mark.parametrize("domain", ["mobile", "desktop", "web", "tools"])
async def test_a_person_solves_a_task_sees_the_verdict_and_saves(domain, visit, tmp_path):
    file = tmp_path / "demos.jsonl"
    more = ["--param", "announce=both"] if domain == "tools" else []
    task = f"micro/{domain}/test/0001"
    page = await visit(f"micro/{domain}", "--task", task, "--save", str(file), *more)
    state, turns = DOMAINS[domain].start(1 + 2_000_000, Layout()), 0
    assert await page.text_content("#goal") == state.goal
    await stop_clock(page)
    await page.hover("#screen", position={"x": 200, "y": 120})
    await shoot(page, f"turn-{domain}")
    while not state.ended:
        decision = state.decisions()[0]
        await page.fill("#thought", decision.thought)
        await perform(page, decision.call)
        state, turns = state.apply(decision.call.name, decision.call.arguments), turns + 1
        await turned(page, turns)
    await page.wait_for_selector("#ended.good")
    said = await page.text_content("#ended")
    assert "state: the goal state holds (reward 1)" in said
    assert "success, score 1" in said
    await shoot(page, f"success-{domain}")
    await page.click("#ended button:has-text('Save')")
    await page.wait_for_selector("#ended dd:has-text('demos.jsonl')")
    assert await page.is_disabled("#save")
    await shoot(page, f"saved-{domain}")
    (episode,) = itertools.islice(saved.episodes(seed=0, path=file), 1)
    assert (episode.goal, episode.domain, len(episode.turns)) == (state.goal, domain, turns)
    assert all("<think>" in turn.response for turn in episode.turns)


async def test_wrong_input_is_an_error_turn_with_the_words_the_agent_would_read(visit):
    page = await visit("micro/web")
    raw = (
        '<think>hm</think><tool_call>{"name": "browser_use", "arguments": {"action": "long_press"}}'
    )
    await page.fill("#raw", raw)
    await page.click("#check")
    await page.wait_for_selector("#checked.bad")
    assert "no action 'long_press'" in await page.text_content("#checked")
    assert await page.locator("#strip figure").count() == 0
    await page.focus("#raw")
    await page.keyboard.press("Control+Enter")
    await turned(page, 1)
    error = await page.text_content("#strip .error")
    assert "browser_use has no action 'long_press'; offered: click" in error
    assert await page.text_content("#slips") == "1 / 3"
    await page.keyboard.press("Escape")
    await page.keyboard.press("c")
    messages = await page.locator("#messages .message").all_text_contents()
    assert messages[-1] == f"user{error}"
    assert raw in messages[-2]
    await shoot(page, "error-turn")
    await page.fill("#raw", raw.replace("long_press", "go_back"))
    await page.click("#check")
    await page.wait_for_selector("#checked.good")
    await page.click("#send")
    await turned(page, 2)


async def test_the_prompt_is_shown_as_the_model_gets_it(visit):
    from mintact_platform.actions.ui import ComputerUse

    page = await visit("micro/desktop")
    await page.click("#context summary")
    system, user = await page.locator("#messages .message pre").all_text_contents()
    assert system == ComputerUse().system_prompt(None)
    assert user == await page.text_content("#goal")
    await shoot(page, "prompt")


@pytest.mark.parametrize(("width", "shown"), [(300, "shown × 2"), (1800, "shown × 0.4")])
async def test_the_crosshair_says_the_grid_value_that_is_sent(width, shown, visit):
    page = await visit(WALL, "--param", f"width={width}")
    assert shown in await page.text_content("#caption")
    size = (width, width * 2 // 3)
    x, y = width * 2 // 3, size[1] - 1
    await page.mouse.move(*await at(page, x, y))
    grid = [Grid().to_grid(v, extent) for v, extent in zip((x, y), size, strict=True)]
    there = sent((x, y), size=size)
    assert await page.text_content("#readout") == f"{grid[0]}, {grid[1]}  {there[:-1]} px)"
    await page.mouse.click(*await at(page, x, y))
    await turned(page, 1)
    assert f'"coordinate": {grid}' in await page.text_content("#strip figure > pre")
    assert await page.text_content("#strip code") == f"left_click {there}"


async def test_all_images_of_an_observation_are_shown(visit):
    page = await visit(WALL, "--param", "more=true")
    assert await page.locator("#also img").count() == 1
    assert await page.get_attribute("#also img", "src") != await page.get_attribute(
        "#screen", "src"
    )
    assert await page.locator("#messages .message.user img").count() == 2
    await shoot(page, "several-images")


async def test_every_gesture_of_the_mouse_is_an_action(visit):
    page = await visit(WALL)
    here, there = await at(page, 100, 50), await at(page, 200, 150)
    await stop_clock(page)
    await page.mouse.dblclick(*here)
    await turned(page, 1)
    await page.mouse.click(*here, button="right")
    await turned(page, 2)
    await page.mouse.move(*here)
    await page.mouse.down()
    await page.mouse.move(*there, steps=4)
    await page.mouse.up()
    await turned(page, 4)
    await click(page, *there)
    await turned(page, 5)
    does = [
        text.strip() for text in await page.locator("#strip figcaption code").all_text_contents()
    ]
    assert does == [
        f"double_click {sent((100, 50))}",
        f"right_click {sent((100, 50))}",
        f"mouse_move {sent((100, 50))}",
        f"left_click_drag {sent((200, 150))}",
        f"left_click {sent((200, 150))}",
    ]
    assert await page.text_content("#reward") == "2.5"
    await shoot(page, "desktop-turns")


async def test_press_and_hold_and_drag_on_a_phone(visit):
    page = await visit("micro/mobile", "--max-turns", "9", "--goal", "explore", "--seed", "4")
    await stop_clock(page)
    await page.mouse.move(*await at(page, 20, 20))
    await page.mouse.down()
    await page.clock.run_for(600)
    await page.mouse.up()
    await turned(page, 1)
    await page.mouse.move(*await at(page, 20, 100))
    await page.mouse.down()
    await page.mouse.move(*await at(page, 20, 20), steps=3)
    await page.mouse.up()
    await turned(page, 2)
    does = await page.locator("#strip figcaption code").all_text_contents()
    screen = (128, 128)
    assert does == [
        f"long_press {sent((20, 20), size=screen)}",
        f"swipe {sent((20, 100), (20, 20), size=screen)}",
    ]


async def test_a_point_of_a_form_is_picked_on_the_screenshot(visit):
    page = await visit("micro/web")
    await page.keyboard.press("2")
    await page.wait_for_selector("#stage.armed")
    await shoot(page, "picking")
    await page.mouse.click(*await at(page, 64, 64))
    await turned(page, 1)
    assert await page.text_content("#strip code") == "hover (64, 64)"


async def test_everything_works_by_keyboard_alone(visit):
    page = await visit(WALL)
    await page.keyboard.press("?")
    await page.wait_for_selector("#keys[open]")
    await shoot(page, "keys")
    await page.keyboard.press("Escape")
    await page.keyboard.press("t")
    await page.keyboard.type("in the middle")
    await page.keyboard.press("Escape")
    await page.keyboard.press("o")
    await page.keyboard.press("Shift+ArrowLeft")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await turned(page, 1)
    assert await page.text_content("#strip code") == f"left_click {sent((135, 101))}"
    assert "<think>in the middle</think>" in await page.text_content("#strip figure > pre")
    await page.keyboard.press("Escape")
    await page.click("#chips button[data-action=type]")
    await page.keyboard.type("two words")
    await page.keyboard.press("Enter")
    await turned(page, 2)
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.wait_for_selector("body[data-phase=ended]")
    await page.keyboard.press("s")
    await page.wait_for_selector("#ended dd:has-text('.jsonl')")
    await page.keyboard.press("n")
    await page.wait_for_selector("body[data-phase=waiting]")
    assert await page.text_content("#goal") == "paint wall 1"


async def test_a_response_may_be_looked_at_before_it_is_sent(visit):
    page = await visit("micro/mobile")
    await page.check("#preview")
    await stop_clock(page)
    await click(page, *await at(page, 64, 64))
    await page.wait_for_function("() => document.querySelector('#raw').value.includes('click')")
    assert await page.locator("#strip figure").count() == 0
    await page.keyboard.press("Control+Enter")
    await turned(page, 1)


async def test_booting_shows_progress(visit, tmp_path):
    may_boot = tmp_path / "may boot"
    page = await visit(WALL, "--param", f"after={may_boot}", phase="booting")
    await page.wait_for_selector("#doing:has-text('of 120 s')")
    await shoot(page, "booting")
    may_boot.touch()
    await page.wait_for_selector("body[data-phase=waiting]")


async def test_an_environment_failure_is_typed_and_offers_a_new_instance(visit):
    page = await visit(WALL)
    await page.click("#chips button[data-action=triple_click]")
    await page.click("#form button[type=submit]")
    await page.wait_for_selector("body[data-phase=failed]")
    said = await page.text_content("#ended")
    for part in (
        "step",
        "RuntimeError",
        "the wall fell",
        "the wall fell on us",
        "Wall@",
        "triple_click",
    ):
        assert part in said
    await shoot(page, "failure")
    await page.click("#ended button:has-text('New instance')")
    await page.wait_for_selector("body[data-phase=waiting]")
    assert await page.is_hidden("#ended")


async def test_a_failing_judge_is_no_verdict_and_can_be_asked_again(visit):
    page = await visit(WALL, "--judge", "stand_ins_of_play:Boom")
    await page.click("#chips button[data-action=terminate]")
    await page.click("#form button[type=submit]")
    await page.wait_for_selector("body[data-phase=ended]")
    assert "lost its glasses" in await page.text_content("#ended")
    await shoot(page, "judge-failed")
    await page.click("#ended button:has-text('Judge again')")
    await page.wait_for_selector("#ended.good")
    assert "found them" in await page.text_content("#ended")


async def test_nothing_an_environment_or_a_person_writes_becomes_markup(visit):
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    page = await visit(WALL, "--goal", evil)
    assert await page.text_content("#goal") == evil
    await page.fill("#raw", evil)
    await page.click("#send")
    await turned(page, 1)
    assert evil in await page.text_content("#strip figure > pre")
    assert await page.locator("#strip img[src=x], script:not([src])").count() == 0
    assert json.dumps(await page.title()) not in ('"1"', '"2"')
