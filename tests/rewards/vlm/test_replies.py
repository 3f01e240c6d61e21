"""The parser: the exact schema with the nonce of the call is a verdict, all else is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_reward_vlm.replies import LABELS, NoVerdict, read_marks, read_opinion

NONCE = "0123456789abcdef0123456789abcdef"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
near_labels = st.sampled_from([*LABELS, "SUCCESS", "judged", "", None, True, 1, ["success"]])
near_verdicts = st.dictionaries(
    st.sampled_from(["nonce", "verdict", "reason", "turns", "criteria", "Verdict"]),
    st.sampled_from([NONCE, NONCE.upper(), "", "0" * 32]) | near_labels | json_values,
)
replies = st.one_of(
    st.text(),
    near_verdicts.map(json.dumps),
    st.lists(near_verdicts.map(json.dumps), max_size=3).map("\n".join),
    near_verdicts.map(lambda values: f"```json\n{json.dumps(values)}\n```"),
    st.tuples(st.text(), near_verdicts.map(json.dumps), st.text()).map("".join),
)


def spoken(reply):
    """The object that a reply consists of, by a reader that is written otherwise; or None."""
    text = reply.strip()
    if text.startswith("```json\n") and text.endswith("\n```"):
        text = text[8:-4]
    if text.startswith("<think>"):
        text = text.partition("</think>")[2]
    try:
        return json.loads(text)
    except ValueError:
        return None


@given(replies, st.none() | st.integers(0, 3))
def test_it_gives_a_verdict_for_the_exact_schema_or_raises_its_own_error(reply, turns):
    try:
        opinion = read_opinion(reply, nonce=NONCE, turns=turns)
    except NoVerdict:
        return
    values = spoken(reply)
    assert set(values) == {"nonce", "verdict", "reason"} | (
        {"turns"} if turns is not None else set()
    )
    assert values["nonce"] == NONCE
    assert values["verdict"] == opinion.label in LABELS
    assert values["reason"] == opinion.reason


@given(replies, st.lists(st.sampled_from(["a", "b"]), unique=True))
def test_so_it_does_for_marks(reply, criteria):
    try:
        marked = read_marks(reply, nonce=NONCE, criteria=criteria)
    except NoVerdict:
        return
    values = spoken(reply)
    assert set(values) == {"nonce", "verdict", "criteria", "reason"}
    assert values["nonce"] == NONCE
    assert set(marked.passed) == (set(criteria) if marked.state == "judged" else set())


@given(st.sampled_from(LABELS), st.text(), st.lists(st.floats(0, 1), max_size=4))
def test_what_follows_the_schema_is_read_as_it_is(label, reason, scores):
    reply = {"nonce": NONCE, "verdict": label, "reason": reason, "turns": scores}
    opinion = read_opinion(json.dumps(reply, indent=1), nonce=NONCE, turns=len(scores))
    assert (opinion.label, opinion.reason, opinion.turns) == (label, reason, tuple(scores))


def opinion(**changed):
    values = {"nonce": NONCE, "verdict": "success", "reason": "r", "turns": [0.5, 1]}
    return json.dumps({**values, **changed})


@pytest.mark.parametrize(
    "turns",
    [
        [0.5],
        [0.5, 1, 1],
        [0.5, 1.01],
        [-0.1, 1],
        [True, 1],
        ["1", 1],
        [None, 1],
        [10**400, 1],
        {"0": 1, "1": 1},
        "11",
        None,
    ],
)
def test_scores_are_one_number_from_0_to_1_for_each_step(turns):
    with pytest.raises(NoVerdict, match="turn"):
        read_opinion(opinion(turns=turns), nonce=NONCE, turns=2)


def test_scores_that_were_not_asked_for_are_no_part_of_the_schema():
    with pytest.raises(NoVerdict, match="keys"):
        read_opinion(opinion(), nonce=NONCE)


@pytest.mark.parametrize(
    "reply",
    [
        "{" * 5000,
        "[" * 90_000,
        '{"a":' * 20_000,
        " " * 200_000 + opinion(),
        opinion(reason="x" * 100_000),
        '{"nonce": 1' + "0" * 5000 + "}",
        "\ufeff" + opinion(),
        opinion(nonce=""),
    ],
)
def test_monsters_are_no_verdict(reply):
    with pytest.raises(NoVerdict):
        read_opinion(reply, nonce=NONCE, turns=2)


def test_an_empty_nonce_lets_nothing_pass():
    with pytest.raises(NoVerdict, match="nonce"):
        read_opinion(opinion(nonce=""), nonce="", turns=2)


def marks(**changed):
    values = {"nonce": NONCE, "verdict": "judged", "criteria": {"a": "pass", "b": "fail"}}
    return json.dumps({**values, "reason": "r", **changed})


def test_marks_are_read_by_criterion():
    marked = read_marks(marks(), nonce=NONCE, criteria=["a", "b"])
    assert marked.passed == {"a": True, "b": False}


@pytest.mark.parametrize(
    "criteria",
    [{}, {"a": "pass"}, {"a": "pass", "b": "fail", "c": "pass"}, {"a": True, "b": False}, [], None],
)
def test_other_criteria_or_marks_are_no_verdict(criteria):
    with pytest.raises(NoVerdict, match="criteri"):
        read_marks(marks(criteria=criteria), nonce=NONCE, criteria=["a", "b"])


@pytest.mark.parametrize("state", ["abstain", "environment_failure"])
def test_without_a_judgement_no_mark_is_kept(state):
    marked = read_marks(marks(verdict=state), nonce=NONCE, criteria=["a", "b"])
    assert (marked.state, marked.passed) == (state, {})
