import asyncio
import itertools

import numpy as np
import pytest
from mintact_env_micro import demonstrations
from mintact_env_micro.scene import SIZE, Layout
from mintact_env_micro.tasks import DEMONSTRATIONS, DOMAINS

from mintact_platform.actions.space import ParseError
from mintact_platform.errors import ConfigurationError

DRAWN = ("mobile", "desktop", "tools")
SPACES = {
    name: space(prompt="short", **({"unlisted": "call"} if name == "tool_use" else {}))
    for name, space in demonstrations.SPACES.items()
}


def take(n, stream=demonstrations.episodes, **params):
    return list(itertools.islice(stream(**{"seed": 0, "domains": DRAWN, **params}), n))


def calls_of(demonstration):
    space = SPACES[demonstration.action_space]
    for turn in demonstration.turns:
        parsed = space.parse(turn.response)
        assert not isinstance(parsed, ParseError), parsed
        (call,) = parsed
        yield space.to_pixels(call, SIZE, SIZE)


def replayed(demonstration, seed):
    state = DOMAINS[demonstration.domain].start(seed, Layout())
    assert state.goal == demonstration.goal
    for turn, call in zip(demonstration.turns, calls_of(demonstration), strict=True):
        if turn.screenshot is not None and demonstration.domain != "web":
            assert (turn.screenshot == state.render()).all()
        assert turn.text == (state.text and f"<tool_response>{state.text}</tool_response>")
        state = state.apply(call.name, call.arguments)
    return state


def test_exact_demonstrations_parse_replay_and_succeed():
    for i, demonstration in enumerate(take(60, demonstrator="exact")):
        assert replayed(demonstration, DEMONSTRATIONS + i).check().success


def test_every_demonstrated_episode_ends_itself():
    for i, demonstration in enumerate(take(90)):
        assert replayed(demonstration, DEMONSTRATIONS + i).ended


def test_the_noisy_demonstrator_errs_about_as_often_as_asked():
    share = {}
    for domain in ("mobile", "tools"):
        made = take(300, domains=(domain,))
        share[domain] = np.mean(
            [replayed(d, DEMONSTRATIONS + i).check().success for i, d in enumerate(made)]
        )
    # two decisions can be wrong on the phone, one in the toolbox
    assert share["mobile"] == pytest.approx(0.49, abs=0.1)
    assert share["tools"] == pytest.approx(0.7, abs=0.1)


def test_the_biased_demonstrator_always_prefers_the_same_wrong_option():
    for i, demonstration in enumerate(take(100, demonstrator="biased", domains=("mobile",))):
        state = DOMAINS["mobile"].start(DEMONSTRATIONS + i, Layout())
        for call in calls_of(demonstration):
            allowed = [option.call.arguments for option in state.decisions()[:2]]
            after = state.apply(call.name, call.arguments)
            assert after in [state.apply("mobile_use", arguments) for arguments in allowed]
            state = after


def test_streams_repeat_with_their_seed_and_differ_from_each_other():
    goals = [d.goal for d in take(30)]
    assert goals == [d.goal for d in take(30)]
    assert goals != [d.goal for d in take(30, seed=1)]
    first, second = take(1, demonstrations.elements)[0], take(1, demonstrations.grounding)[0]
    assert first.turns[0].elements != second.turns[0].elements


def test_focus_names_a_word_of_the_thought_and_the_box_around_the_click():
    pointed = 0
    for demonstration in take(90) + take(30, demonstrations.grounding):
        for turn in demonstration.turns:
            if turn.focus is None:
                continue
            x0, y0, x1, y1 = turn.focus.box
            thought = turn.response.partition("</think>")[0]
            assert turn.focus.word in thought.removeprefix("<think>").split()
            if "coordinate" in turn.response:
                parsed = SPACES[demonstration.action_space].parse(turn.response)
                call = SPACES[demonstration.action_space].to_pixels(parsed[0], SIZE, SIZE)
                x, y = call.arguments["coordinate"]
                assert x0 <= x <= x1
                assert y0 <= y <= y1
                pointed += 1
    assert pointed > 100


def test_grounding_shows_one_screenshot_and_asks_up_to_four_questions():
    for demonstration in take(60, demonstrations.grounding):
        first, *others = demonstration.turns
        assert demonstration.goal == ""
        assert first.screenshot is not None
        assert all(turn.screenshot is None for turn in others)
        assert 2 <= len(demonstration.turns) <= 4
        for turn in demonstration.turns:
            assert turn.focus is not None
            assert turn.focus.word in turn.response
            assert turn.text.startswith(("click ", "color of the "))
            assert (turn.focus.word, turn.focus.box) in first.elements


def test_elements_show_first_and_second_screens_without_a_response():
    made = take(60, demonstrations.elements, domains=("mobile",))
    assert all(d.turns[0].response == "" and len(d.turns) == 1 for d in made)
    assert {len(d.turns[0].elements) for d in made} == {3, 4}


def test_the_picture_of_the_tools_domain_is_shown_once():
    (demonstration,) = take(1, domains=("tools",), demonstrator="exact")
    assert [turn.screenshot is not None for turn in demonstration.turns] == [True, False, False]


def test_an_unknown_domain_names_the_near_match():
    with pytest.raises(ConfigurationError, match="did you mean 'mobile'"):
        take(1, domains=("mobil",))


@pytest.mark.browser
async def test_web_demonstrations_can_be_made_inside_a_running_event_loop():
    assert asyncio.get_running_loop().is_running()
    made = take(8, domains=("web",), demonstrator="exact")
    for i, demonstration in enumerate(made):
        assert replayed(demonstration, DEMONSTRATIONS + i).check().success
        assert [turn.screenshot.shape for turn in demonstration.turns] == [(SIZE, SIZE, 3)] * 4
    questions = take(8, demonstrations.grounding, domains=("web",))
    assert all(d.turns[0].text.startswith("type ") for d in questions)
    assert all(len(d.turns) == 4 for d in questions)


def test_without_a_browser_only_the_web_domain_is_missing(monkeypatch):
    monkeypatch.setenv("MINTACT_CHROMIUM", "/nonexistent/chromium")
    assert len(take(6)) == 6
    with pytest.raises(ConfigurationError, match="apt-get install chromium-headless-shell"):
        take(1, domains=("web",), colours=7)
