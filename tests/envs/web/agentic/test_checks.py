"""The language of checks: what it says, that nothing breaks it, and what it refuses."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_env_web.agentic.checks import Final, at, failing, holds, same
from mintact_env_web.agentic.forms import Unfit, check_form
from mintact_env_web.agentic.steps import read_steps

BEFORE = {"cart": {"lines": [{"id": 1, "n": 2}]}, "user": {"name": "Ada", "vip": True}, "total": 4}
AFTER = {
    "cart": {"lines": [{"id": 1, "n": 2}, {"id": 7, "n": 1}]},
    "user": {"name": "Ada", "vip": True},
    "total": 10.5,
}
FINAL = Final(BEFORE, AFTER, "It is $1,240.")

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.sampled_from("abc01"), v, max_size=3),
    max_leaves=12,
)
paths = st.text("abc01.-", max_size=6) | st.lists(
    st.text("abc", max_size=3) | st.integers(-3, 3), max_size=4
)


def operand():
    base = (
        scalars
        | st.builds(lambda p: {"after": p}, paths)
        | st.builds(lambda p: {"before": p}, paths)
        | st.builds(lambda v: {"literal": v}, values)
        | st.just({"answer": True})
    )
    return st.recursive(
        base,
        lambda v: (
            st.lists(v, max_size=3)
            | st.builds(lambda x: {"count": x}, v)
            | st.builds(lambda x: {"sum": x}, v)
            | st.builds(lambda x, p: {"pick": [x, p]}, v, paths)
            | st.builds(lambda x, p, y: {"where": [x, {p: y}]}, v, st.text("abc.", max_size=4), v)
        ),
        max_leaves=6,
    )


def condition():
    pairs = ("equals", "contains", "less", "at_most", "more", "at_least")
    base = (
        st.builds(lambda n, a, b: {n: [a, b]}, st.sampled_from(pairs), operand(), operand())
        | st.builds(lambda n, v: {n: v}, st.sampled_from(["exists", "answered"]), operand())
        | st.builds(
            lambda n, p: {n: p},
            st.sampled_from(["unchanged", "only_changed"]),
            st.lists(paths, max_size=3),
        )
    )
    return st.recursive(
        base,
        lambda c: (
            st.builds(
                lambda n, cs: {n: cs},
                st.sampled_from(["all", "any"]),
                st.lists(c, min_size=1, max_size=3),
            )
            | st.builds(lambda x: {"not": x}, c)
        ),
        max_leaves=5,
    )


@given(condition(), values, values, st.none() | st.text(max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_check_that_is_let_pass_is_true_or_false_on_every_state(check, before, after, answer):
    try:
        check_form(check)
    except Unfit:
        return
    final = Final(before, after, answer)
    assert isinstance(holds(check, final), bool)
    assert holds({"not": check}, final) is not holds(check, final)
    assert bool(failing(check, final)) is not holds(check, final)


@given(values)
@settings(max_examples=100, deadline=None)
def test_whatever_is_given_for_a_check_is_let_pass_or_refused(value):
    try:
        check_form(value)
    except Unfit:
        return
    assert isinstance(holds(value, FINAL), bool)


@given(values, values)
@settings(max_examples=60, deadline=None)
def test_equality_is_that_of_json_with_booleans_apart(left, right):
    def plain(value):  # NaN is no JSON
        return json.dumps(value, sort_keys=True)

    if "NaN" in plain(left):
        return
    assert same(left, json.loads(plain(left)))
    if same(left, right):
        assert same(right, left)
    assert not same(True, 1)
    assert same(1, 1.0)


@given(values)
@settings(max_examples=40, deadline=None)
def test_only_changed_holds_exactly_when_the_rest_is_as_it_was(value):
    changed = {**BEFORE, "total": value}
    final = Final(BEFORE, changed)
    assert holds({"only_changed": ["total"]}, final)
    assert holds({"only_changed": []}, final) is same(value, 4)
    assert holds({"unchanged": ["cart", "user"]}, final)


def test_a_state_nested_a_thousand_deep_is_compared():
    deep = json.loads("[" * 900 + "]" * 900)
    other = json.loads("[" * 900 + "1" + "]" * 900)
    assert same(deep, json.loads(json.dumps(deep)))
    assert holds({"only_changed": []}, Final({"a": deep}, {"a": deep}))
    assert not holds(
        {"equals": [{"after": "a"}, {"before": "a"}]}, Final({"a": deep}, {"a": other})
    )


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"equals": [{"after": "cart.lines.1.id"}, 7]}, True),
        ({"equals": [{"after": ["cart", "lines", -1, "id"]}, 7.0]}, True),
        ({"equals": [{"after": "user.vip"}, 1]}, False),
        ({"equals": [{"after": "nowhere"}, {"after": "nowhere"}]}, False),
        ({"equals": [{"pick": [{"after": "cart.lines"}, "id"]}, [1, 7]]}, True),
        ({"equals": [{"sum": {"pick": [{"after": "cart.lines"}, "n"]}}, 3]}, True),
        ({"equals": [{"count": {"where": [{"after": "cart.lines"}, {"n": 1}]}}, 1]}, True),
        ({"more": [{"after": "total"}, {"before": "total"}]}, True),
        ({"less": [{"after": "user.name"}, 4]}, False),
        ({"contains": [{"after": "user.name"}, "AD"]}, True),
        ({"contains": [{"pick": [{"after": "cart.lines"}, "id"]}, 7]}, True),
        ({"contains": [{"after": "user"}, "vip"]}, True),
        ({"exists": {"after": "cart.lines.2"}}, False),
        ({"answered": "1240"}, True),
        ({"answered": ["1240", "it"]}, True),
        ({"answered": 240}, False),
        ({"answered": ""}, False),
        ({"answered": []}, False),
        ({"answered": {"after": "cart"}}, False),
        ({"only_changed": ["cart.lines", "total"]}, True),
        ({"only_changed": "cart.lines"}, False),
        ({"unchanged": ["user", "nowhere"]}, True),
        ({"any": [{"exists": {"after": "no"}}, {"not": {"exists": {"after": "no"}}}]}, True),
    ],
)
def test_what_the_operators_say(check, expected):
    check_form(check)
    assert holds(check, FINAL) is expected


def test_paths_lead_through_objects_and_lists_and_else_nowhere():
    assert at(AFTER, "") is AFTER
    assert at({"1": "one"}, "1") == "one"
    assert not holds({"exists": {"after": "cart.lines.9999999999999"}}, FINAL)
    assert not holds({"exists": {"after": "user.name.0"}}, FINAL)


def test_the_conditions_that_fail_are_named_with_what_they_found():
    check = {"all": [{"equals": [{"after": "total"}, 9]}, {"only_changed": ["total"]}]}
    assert failing(check, FINAL) == [
        '{"equals": [{"after": "total"}, 9]} is false: 10.5 against 9',
        '{"only_changed": ["total"]} is false',
    ]


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("__import__('os').system('id')", "needs an object with one key"),
        ({"eval": "1"}, "unknown operator 'eval'"),
        ({"equal": [1, 1]}, "did you mean 'equals'?"),
        ({"equals": [1, {"__class__": 1}]}, "unknown operator '__class__'"),
        ({"equals": [1]}, "needs a list of two"),
        ({"all": []}, "needs a list of conditions"),
        ({"all": [{"exists": {"after": 3}}]}, "not a path"),
        ({"exists": {"after": [True]}}, "not a path"),
        ({"exists": {"after": [10**5000]}}, "not a path"),
        ({"equals": [float("nan"), 1]}, "no JSON number"),
        ({"equals": [object(), 1]}, "no JSON value"),
        ({"answered": "x" * 5000}, "longer than"),
        ({"any": [{"exists": 1}] * 5000}, "more than 600 parts"),
        ({}, "needs an object with one key"),
        (None, "needs an object with one key"),
    ],
)
def test_what_is_no_check_is_refused(check, reason):
    with pytest.raises(Unfit, match=r".*") as refusal:
        check_form(check)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_a_check_nested_without_end_is_refused():
    check = {"exists": 1}
    for _ in range(5000):
        check = {"not": check}
    with pytest.raises(Unfit, match="deep"):
        check_form(check)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "list of steps"),
        ("click", "list of steps"),
        ([{"evaluate": "fetch('/')"}], "one verb"),
        ([{"clik": "a"}], "did you mean 'click'?"),
        ([{"click": 3}], "needs a text"),
        ([{"click": ""}], "needs a text"),
        ([{"click": "a", "force": True}], "takes no 'force'"),
        ([{"type": "a"}], "needs 'text'"),
        ([{"type": "a", "text": 5}], "needs 'text'"),
        ([{"type": "a", "text": "x" * 9999}], "needs 'text'"),
        ([{"click": "a", "type": "b"}], "one verb"),
        ([{"stop": "x"}, {"click": "a"}], "after a stop"),
        ([{"back": "x"}], "needs a text"),
        ([{"click": "a"}] * 100, "more than 60"),
        ([None], "one verb"),
    ],
)
def test_what_is_no_script_is_refused(steps, reason):
    with pytest.raises(Unfit, match=r".*") as refusal:
        read_steps(steps)
    assert reason in str(refusal.value)


def test_a_script_is_written_as_it_was_read():
    steps = [
        {"type": "who", "text": "Ada", "enter": True},
        {"choose": "size", "option": "L"},
        {"drag": "a", "to": "b"},
        {"back": True},
        {"stop": ""},
    ]
    assert [step.to_json() for step in read_steps(steps)] == steps
