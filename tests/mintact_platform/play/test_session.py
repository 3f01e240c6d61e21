"""A person's session without HTTP, on real environments."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest
from mintact_env_micro.scene import Layout
from mintact_env_micro.tasks import DOMAINS
from PIL import Image

from mintact_platform.actions.space import ParseError
from mintact_platform.config import Deadlines
from mintact_platform.datasets import saved
from mintact_platform.play.settings import NotNow
from mintact_platform.play.view import view
from mintact_platform.records.outcome import Outcome

WALL = "stand_ins_of_play:Wall"


def steps(domain, seed):
    """The right calls of a micro task, in pixels."""
    state = DOMAINS[domain].start(seed, Layout())
    while not state.ended:
        call = state.decisions()[0].call
        yield call
        state = state.apply(call.name, call.arguments)


async def do(session, wait, call, thought=""):
    session.respond(session.compose(thought, call.name, dict(call.arguments)))
    return await wait(session, "waiting", "ended", "failed")


@pytest.mark.parametrize("domain", ["mobile", "desktop"])
async def test_a_task_is_played_to_the_judges_success(domain, server, open_session, wait):
    at = None if domain == "mobile" else server
    session = await open_session(f"micro/{domain}", "--task", f"micro/{domain}/test/0003", at=at)
    seed = session.round.task.seed
    for call in steps(domain, seed):
        await do(session, wait, call)
    assert session.phase == "ended"
    assert session.round.outcome == Outcome.COMPLETED
    assert session.round.verdict.label == "success"
    assert session.round.verdict.judge == "state"


async def test_the_page_shows_the_screenshot_and_the_messages_the_agent_gets(open_session):
    session = await open_session("micro/mobile")
    shown = view(session)
    state = DOMAINS["mobile"].start(0, Layout())
    with Image.open(session.round.images[0].path) as image:
        assert (np.asarray(image) == state.render()).all()
    system, user = shown["messages"]
    assert system["text"] == session.space.system_prompt(session.round.task)
    assert (user["role"], user["text"], len(user["images"])) == ("user", state.goal, 1)
    assert shown["observation"] == {
        "text": "",
        "new": [session.round.images[0].digest],
        "screenshot": session.round.images[0].digest,
        "size": (128, 128),
    }


async def test_an_unusable_response_is_an_error_turn_that_the_agent_would_see(open_session, wait):
    session = await open_session("micro/mobile")
    session.respond("<think>hm</think>no call")
    await wait(session, "waiting")
    shown = view(session)
    assert "no tool call found" in shown["turns"][0]["error"]
    assert shown["messages"][-1] == {
        "role": "user",
        "text": session.space.observation_text(shown["turns"][0]["error"]),
        "images": [],
    }
    assert shown["messages"][-2]["text"] == "<think>hm</think>no call"
    assert shown["errors"] == {"made": 1, "limit": 3}
    for _ in range(2):
        session.respond("again nothing")
        await wait(session, "waiting", "ended")
    assert session.phase == "ended"
    assert session.round.outcome == Outcome.AGENT_ERROR


async def test_reading_a_response_costs_no_turn(open_session):
    session = await open_session("micro/mobile")
    assert isinstance(session.read("nothing"), ParseError)
    (call,) = session.read(session.compose("x", "mobile_use", {"action": "wait"}))
    assert call.arguments == {"action": "wait"}
    assert not session.round.episode.turns


async def test_a_pixel_becomes_a_grid_value_in_the_text_and_a_pixel_near_it_again(
    open_session, wait
):
    session = await open_session(WALL)
    text = session.compose(
        "there", "computer_use", {"action": "left_click", "coordinate": [150, 90]}
    )
    assert '"coordinate": [500, 450]' in text
    session.respond(text)
    await wait(session, "waiting")
    (turn,) = session.round.episode.turns
    assert turn.pixel_calls[0]["arguments"]["coordinate"] == [150, 90]
    assert session.compose("", "computer_use", {"action": "left_click", "coordinate": "left"})


async def test_the_environment_may_tell_the_goal_and_what_no_agent_sees(open_session, wait):
    session = await open_session(WALL, "--seed", "5")
    assert session.round.task.goal == "paint wall 5"
    assert session.round.info["hidden"] == 7
    assert view(session)["messages"][1]["text"] == "paint wall 5\na wall"
    assert view(session)["observation"]["text"] == "a wall"
    await session.begin()
    await wait(session, "waiting")
    assert session.round.task.goal == "paint wall 6"
    await session.begin(again=True)
    await wait(session, "waiting")
    assert session.round.task.goal == "paint wall 6"


async def test_a_failing_environment_is_typed_and_the_next_try_has_another_instance(
    open_session, wait
):
    session = await open_session(WALL)
    first = session.round.instance
    session.respond(session.compose("", "computer_use", {"action": "triple_click"}))
    await wait(session, "failed")
    failure = session.round.failure
    assert (failure.phase, failure.kind) == ("step", "RuntimeError")
    assert "the wall fell on us" in failure.log_tail
    assert session.round.verdict is None
    with pytest.raises(NotNow):
        await session.save()
    await session.begin(again=True)
    await wait(session, "waiting")
    assert session.round.instance != first


async def test_an_environment_that_never_boots_fails_in_create_with_its_log(open_session, wait):
    session = await open_session(WALL, "--param", "boots=false", phases=("failed",))
    assert session.round.failure.phase == "create"
    assert "no bricks" in session.round.failure.message + session.round.failure.log_tail
    await session.begin(again=True)
    await wait(session, "failed")


async def test_giving_up_reads_the_state_and_asks_the_judge(open_session, wait):
    session = await open_session("micro/mobile")
    session.give_up()
    await wait(session, "ended")
    assert session.round.outcome == Outcome.CANCELLED
    assert session.round.trajectory.state_check.success is False
    assert session.round.verdict.label == "failure"
    instance = session.round.instance
    await session.begin()
    await wait(session, "waiting")
    assert session.round.instance == instance


async def test_an_action_that_hangs_can_be_cut_off(open_session, wait):
    session = await open_session(WALL)
    session.respond(session.compose("", "computer_use", {"action": "middle_click"}))
    session.give_up()
    await wait(session, "ended")
    assert session.round.outcome == Outcome.CANCELLED
    await session.begin()
    await wait(session, "waiting", "failed")
    assert session.phase == "waiting"


async def test_giving_up_while_it_boots_leaves_it_ready_to_begin_anew(open_session, wait, tmp_path):
    may_boot = tmp_path / "may boot"
    session = await open_session(WALL, "--param", f"after={may_boot}", phases=("booting",))
    session.give_up()
    await wait(session, "ended")
    assert session.round.trajectory is None
    with pytest.raises(NotNow):
        await session.save()
    may_boot.touch()
    await session.begin(again=True)
    await wait(session, "waiting")


async def test_beginning_twice_at_once_plays_one_episode(open_session, wait):
    session = await open_session(WALL)
    await asyncio.gather(*(session.begin() for _ in range(3)))
    await wait(session, "waiting")
    assert session.round.task.goal == "paint wall 3"
    plays = [t for t in asyncio.all_tasks() if "PlaySession._play" in repr(t.get_coro())]
    assert len(plays) == 1


async def test_a_judge_that_fails_can_be_asked_again(open_session, wait):
    session = await open_session(WALL, "--judge", "stand_ins_of_play:Boom")
    session.respond(
        session.compose("", "computer_use", {"action": "terminate", "status": "success"})
    )
    await wait(session, "ended")
    assert "lost its glasses" in session.round.judge_error
    session.judge_again()
    await wait(session, "judging")
    await wait(session, "ended")
    assert session.round.verdict.label == "success"
    assert session.round.judge_error == ""


async def test_what_is_not_possible_now_is_refused(open_session, wait):
    session = await open_session("micro/mobile")
    with pytest.raises(NotNow):
        await session.save()
    with pytest.raises(NotNow, match="nothing to judge"):
        session.judge_again()
    with pytest.raises(NotNow, match="characters"):
        session.respond("x" * 100_001)
    session.give_up()
    with pytest.raises(NotNow):
        session.respond("too late")
    await wait(session, "ended")
    with pytest.raises(NotNow, match="no episode"):
        session.give_up()


async def test_an_episode_is_saved_once(open_session, wait, tmp_path):
    file = tmp_path / "demos.jsonl"
    session = await open_session("micro/mobile", "--save", str(file))
    session.respond("no call at all")
    await wait(session, "waiting")
    for call in steps("mobile", 0):
        await do(session, wait, call, thought="so")
    assert await session.save() == file
    with pytest.raises(NotNow):
        await session.save()
    (episode,) = itertools.islice(saved.episodes(seed=0, path=file), 1)
    assert [turn.response for turn in episode.turns] == [
        turn.response for turn in session.round.trajectory.turns if not turn.error
    ]
    assert episode.goal == session.round.task.goal
    assert episode.turns[0].screenshot.shape == (128, 128, 3)


async def test_closing_in_any_phase_leaves_no_task_behind(open_session, wait):
    session = await open_session("micro/mobile", phases=("booting",), at=None)
    await session.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others
    assert session.settings.deadlines == Deadlines()
