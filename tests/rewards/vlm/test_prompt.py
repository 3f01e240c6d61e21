"""What is laid before the model: which images, which texts, in whose words."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_reward_vlm.images import choose, media_type
from mintact_reward_vlm.prompt import Manner, marks_form, messages, opinion_form
from mintact_reward_vlm.untrusted import Marks, shortened
from mintact_reward_vlm.vlm import Vlm
from mintact_reward_vlm.wording import CRITERIA, DOMAINS, OUTCOMES, words_for

from mintact_platform.records.outcome import Outcome
from mintact_platform.records.trajectory import Turn

MARKS = Marks("f00dfeedf00dfeed", "0123456789abcdef0123456789abcdef")


def turns_of(*digests):
    return [Turn(i, "", tuple(some), "") for i, some in enumerate(digests)]


@given(st.lists(st.text("ab", max_size=3), max_size=12), st.integers(0, 6))
def test_images_are_few_in_order_and_hold_the_first_and_the_last(digests, limit):
    turns = turns_of(*digests)
    every = [(t, k) for t, turn in enumerate(turns) for k in range(len(turn.images))]
    for select in ("changes", "evenly"):
        chosen = choose(turns, limit, select=select)
        assert len(chosen) == len(set(chosen)) <= limit
        assert list(chosen) == sorted(chosen)
        if chosen and limit > 1:
            assert chosen[0] == every[0]
    if every and limit:
        assert choose(turns, limit, select="evenly")[-1] == every[-1]
    changed = choose(turns, 99, select="changes")
    shown = [turns[t].images[k] for t, k in changed]
    assert all(a != b for a, b in itertools.pairwise(shown))


def test_only_changes_are_shown_and_too_many_are_thinned_out_evenly():
    turns = turns_of("a", "a", "b", "", "b", "ca", "a")
    assert choose(turns, 10) == ((0, 0), (2, 0), (5, 0), (5, 1))
    assert choose(turns, 2) == ((0, 0), (5, 1))
    assert choose(turns, 1) == ((5, 1),)
    assert choose(turns, 0) == ()
    assert choose(turns_of(*"abcdefghi"), 3) == ((0, 0), (4, 0), (8, 0))


def test_an_images_type_is_read_off_its_bytes():
    assert media_type(b"\x89PNG....") == "image/png"
    assert media_type(b"RIFF....WEBP") == "image/webp"
    assert media_type(b"\xff\xd8\xff") == "image/jpeg"


def said(view, **manner):
    form = opinion_form(view.task.domain, MARKS.nonce, turns=None)
    system, user = messages(view, {}, form=form, marks=MARKS, manner=Manner(**manner))
    return system["content"], user["content"]


@pytest.mark.parametrize(
    ("responses", "shown"),
    [("last", ["Done: the cap"]), ("all", ["I click.", "Done: the cap"]), ("none", [])],
)
def test_the_agents_own_words_are_shown_as_far_as_wanted(responses, shown, view):
    _, user = said(view, responses=responses)
    assert [words for words in ("I click.", "Done: the cap") if words in user] == shown
    assert '| {"name": "click", "arguments": {"x": 1}}' in user


def test_actions_are_told_in_pixels_where_they_are_known(make_view):
    grid, pixels = (
        {"name": "click", "arguments": {"x": 500}},
        {"name": "click", "arguments": {"x": 8}},
    )
    turn = Turn(0, "", (), "", calls=(grid,), pixel_calls=(pixels,))
    _, user = said(make_view([turn]))
    assert '"x": 8' in user
    assert "500" not in user


def test_the_state_check_is_shown_only_when_wanted(view):
    assert "cap" not in said(view)[1].partition("final state")[2]
    assert '"details": {"cart": ["cap"]}' in said(view, state_check=True)[1]


def test_much_text_is_shortened_in_the_middle(make_view):
    turns = [Turn(i, f"<{i}>" + "x" * 50_000 + f"</{i}>", (), "y" * 50_000) for i in range(20)]
    _, user = said(make_view(turns), max_chars=10_000, responses="all")
    assert len(user) < 30_000
    assert all(f"<{i}>" in user and f"</{i}>" in user for i in range(20))
    assert "characters left out" in user
    assert shortened("abc", 3) == "abc"


def test_own_instructions_are_among_the_rules(view):
    assert "Be kind to cats." in said(view, instructions="Be kind to cats.")[0]


@pytest.mark.parametrize("domain", [*DOMAINS, "my-own"])
def test_each_domain_is_spoken_of_in_its_words(domain, make_view):
    system, _ = said(make_view([], domain=domain))
    assert words_for(domain).agent in system
    assert f"environment_failure: {words_for(domain).broken}" in system


def test_how_the_rollout_ended_is_told_for_every_outcome_that_is_judged(make_view):
    for outcome in Outcome:
        if outcome.counts:
            assert OUTCOMES[outcome] in said(make_view([], outcome=outcome))[1]


def test_the_papers_criteria_are_the_default_ones():
    form = marks_form("tools", MARKS.nonce, CRITERIA)
    assert list(CRITERIA) == [
        "task_completion",
        "instruction_following",
        "tool_use_validity",
        "no_side_effects",
        "information_accuracy",
    ]
    assert all(f'"{name}": "pass" | "fail"' in form for name in CRITERIA)


async def test_turn_scores_are_asked_for_and_given(endpoint, ask, view):
    reply = '{"nonce": "NONCE", "verdict": "success", "reason": "r", "turns": [0.25, 1]}'
    endpoint.says(reply)
    judge = functools.partial(Vlm, url=endpoint.url, model="m", turn_scores=True)
    assert (await ask(judge, view)).turn_rewards == (0.25, 1.0)
    assert '"turns": [2 numbers from 0 to 1, one a step]' in endpoint.system


def test_what_was_shown_at_the_end_is_chosen_like_any_other_image():
    turns = turns_of("a", "b")
    assert choose(turns, 10, final=("c",)) == ((0, 0), (1, 0), (2, 0))
    assert choose(turns, 1, final=("c",)) == ((2, 0),)
    assert choose(turns, 10, final=("b",)) == ((0, 0), (1, 0))
