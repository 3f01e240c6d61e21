"""Reading single arguments as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.actions.values import read_keys, read_point, read_text


@pytest.mark.parametrize(
    "value",
    [
        [500, 120],
        (500, 120),
        [500.4, 119.6],
        ["500", "120"],
        "500, 120",
        "(500,120)",
        "[500, 120]",
        "<point>500 120</point>",
        [[500, 120]],
        {"x": 500, "y": 120},
        [490, 110, 510, 130],
        [[490, 110], [510, 130]],
        "490,110,510,130",
    ],
)
def test_a_point_is_read_from_every_form_seen(value):
    assert read_point(value) == [500, 120]


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        [1],
        [1, 2, 3],
        "here",
        "",
        [True, 2],
        ["a", "b"],
        {"x": 1},
        [1, float("nan")],
        [1, None],
        [1, float("inf")],
        [10**400, 1],
        "9" * 400 + ", 1",
    ],
)
def test_what_is_no_point_is_refused(value):
    with pytest.raises(ValueError, match=r"must be"):
        read_point(value)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (["ctrl", "c"], ["ctrl", "c"]),
        ("ctrl+c", ["ctrl", "c"]),
        (["ctrl+c"], ["ctrl", "c"]),
        ("enter", ["enter"]),
        ("['ctrl', 'c']", ["ctrl", "c"]),
        ("keys=['ctrl', 'c']", ["ctrl", "c"]),
        (["keys=['ctrl'", "'c']"], ["ctrl", "c"]),
        ("keys=['ctrl'", ["ctrl"]),
        ("+", ["+"]),
        (["ctrl", "+"], ["ctrl", "+"]),
        (["["], ["["]),
        ([","], [","]),
        ("ctrl + shift + t", ["ctrl", "shift", "t"]),
    ],
)
def test_keys_are_read_from_every_form_seen(value, keys):
    assert read_keys(value) == keys


@pytest.mark.parametrize("value", [None, [], "", " ", 5, [1], {"a": 1}])
def test_what_names_no_key_is_refused(value):
    with pytest.raises(ValueError, match="must"):
        read_keys(value)


points = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("0123456789-.,e ", max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=5,
)


@given(points)
def test_a_point_read_is_two_integers(value):
    try:
        point = read_point(value)
    except ValueError:
        return
    assert [type(number) for number in point] == [int, int]


@given(st.text(max_size=12) | st.lists(st.text(max_size=4), max_size=3))
def test_keys_read_are_never_empty(value):
    try:
        keys = read_keys(value)
    except ValueError:
        return
    assert keys
    assert all(keys)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hello\\n", "hello\n"),
        ("a\\nb", "a\nb"),
        ("C:\\new", "C:\\new"),
        ("\\\\host\\new", "\\\\host\\new"),
        ('print("a\\n")', 'print("a\\n")'),
        ("\\d\\n", "\\d\\n"),
        ("note:\\n", "note:\n"),
        ("plain", "plain"),
        (5, 5),
    ],
)
def test_an_escaped_line_break_in_typed_text_is_one_unless_it_may_mean_something_else(value, text):
    assert read_text(value) == text
