"""Every gymnasium space travels as JSON and comes back equal, its members too."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mintact_platform.environments.protocol.arraycodec import pack_info, unpack_info
from mintact_platform.environments.protocol.spacecodec import (
    describe_space,
    native_spaces,
    space_of,
)
from mintact_platform.environments.protocol.spacevalues import (
    from_jsonable,
    read_member,
    to_jsonable,
    words,
)
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError

INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]


@st.composite
def boxes(draw, min_dims=0):
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=3, max_side=4))
    dtype = np.dtype(draw(st.sampled_from([*INTEGERS, "float32", "float64"])))
    if dtype.kind == "f":
        width = 32 if dtype.itemsize == 4 else 64
        numbers = st.floats(-1e6, 1e6, width=width)
        low_numbers, high_numbers = numbers | st.just(-np.inf), numbers | st.just(np.inf)
    else:
        # gymnasium draws through floats, which have no room for all of int64
        far = min(int(np.iinfo(dtype).max), 2**50)
        near = max(int(np.iinfo(dtype).min), -far)
        low_numbers = high_numbers = st.integers(near, far - 1)
    one, other = (
        draw(hnp.arrays(dtype, shape, elements=low_numbers)),
        draw(hnp.arrays(dtype, shape, elements=high_numbers)),
    )
    low, high = np.minimum(one, other), np.maximum(one, other)
    if dtype.kind == "f":
        low, high = np.where(np.isposinf(low), 0, low), np.where(np.isneginf(high), 0, high)
    return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)


discretes = st.builds(
    lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 100), st.integers(-50, 50)
)
multi_discretes = st.builds(
    lambda counts, shift: spaces.MultiDiscrete(counts, start=np.full(counts.shape, shift)),
    hnp.arrays(np.int64, hnp.array_shapes(max_dims=2, max_side=3), elements=st.integers(1, 9)),
    st.integers(-3, 3),
)
multi_binaries = st.builds(
    spaces.MultiBinary, st.integers(1, 5) | st.lists(st.integers(1, 3), min_size=1, max_size=2)
)
texts = st.builds(
    lambda low, more, charset: spaces.Text(low + more, min_length=low, charset=charset),
    st.integers(0, 3),
    st.integers(0, 5),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
)
leaves = boxes() | discretes | multi_discretes | multi_binaries | texts
# gymnasium itself warns of scalars where arrays are stacked
stackable = boxes(min_dims=1) | discretes
graphs = st.builds(spaces.Graph, stackable, st.none() | stackable)
compounds = st.recursive(
    leaves | graphs,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
        | st.dictionaries(st.text("abcxyz", max_size=4), inner, max_size=3).map(spaces.Dict)
        | st.lists(inner, min_size=1, max_size=3).map(tuple).map(spaces.OneOf)
        | inner.map(spaces.Sequence)
    ),
    max_leaves=5,
)
stacked = stackable.map(lambda space: spaces.Sequence(space, stack=True))


def over_the_wire(value):
    return json.loads(json.dumps(value, allow_nan=False))


@given(space=compounds | stacked)
@settings(deadline=None)
def test_a_space_comes_back_equal_and_described_the_same(space):
    described = over_the_wire(describe_space(space))
    back = space_of(described)
    assert back == space
    assert describe_space(back) == described
    assert type(back) is type(space)


@given(space=compounds | stacked, seed=st.integers(0, 2**31 - 1))
@settings(deadline=None)
def test_a_member_comes_back_as_it_was_and_is_a_member_still(space, seed):
    space.seed(seed)
    back = space_of(describe_space(space))
    for _ in range(3):
        value = space.sample()
        written = over_the_wire(to_jsonable(space, value))
        read = read_member(back, written)
        assert space.contains(read)
        assert over_the_wire(to_jsonable(back, read)) == written
        if isinstance(space, spaces.Box):
            value = np.asarray(value)  # gymnasium draws a scalar where its space holds an array
        if isinstance(space, spaces.Box | spaces.Discrete | spaces.Text | spaces.MultiDiscrete):
            assert data_equivalence(read, value, exact=True)


@given(space=leaves, value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
))  # fmt: skip
@settings(deadline=None)
def test_whatever_is_no_member_is_refused_in_words(space, value):
    try:
        read = read_member(space, value, "action")
    except ValueError as error:
        read, refusal = None, str(error)
    assert space.contains(read) if read is not None else refusal.startswith("action must be ")


def test_bounds_beyond_what_a_float_holds_are_kept_to_the_last_digit():
    space = spaces.Box(-(2**63), 2**63 - 2, (2,), np.int64)
    back = space_of(over_the_wire(describe_space(space)))
    assert (back.low[0], back.high[0]) == (-(2**63), 2**63 - 2)


def test_a_bounded_flag_is_kept_where_the_type_has_no_infinity():
    space = spaces.Box(-np.inf, 5, (2,), np.int64)
    back = space_of(over_the_wire(describe_space(space)))
    assert not back.bounded_below.any()
    assert back.bounded_above.all()
    assert back.low[0] == np.iinfo(np.int64).min


def test_the_order_of_keys_and_characters_is_kept():
    space = spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Text(3, charset="zyx"))])
    back = space_of(over_the_wire(describe_space(space)))
    assert list(back.spaces) == ["b", "a"]
    assert back["a"].character_list == ("z", "y", "x")


def test_calls_and_screens_come_back_too():
    calls = CallSpace([{"name": "act", "arguments": {"action": 1}}])
    for space in (calls, ScreenSpace(3, 4), ScreenSpace()):
        assert space_of(over_the_wire(describe_space(space))) == space
    assert read_member(calls, calls.sample()) == calls.examples[0]


def test_a_large_array_travels_as_bytes_and_a_small_one_as_lists():
    picture = spaces.Box(0, 255, (20, 30, 3), np.uint8)
    value = picture.sample()
    written = over_the_wire(to_jsonable(picture, value))
    assert set(written) == {"base64", "dtype", "shape"}
    read = from_jsonable(picture, written)
    assert np.array_equal(read, value)
    read[0, 0, 0] = 1  # a copy that can be written to
    assert to_jsonable(spaces.Box(0, 1, (2,)), np.zeros(2, np.float32)) == [0.0, 0.0]


def test_an_observation_outside_of_its_space_is_read_an_action_is_not():
    space = spaces.Box(-1, 1, (2,))
    assert from_jsonable(space, [5, 0]).tolist() == [5.0, 0.0]
    with pytest.raises(ValueError, match=r"a list of 2 numbers from -1.0 to 1.0, got \[5, 0\]"):
        read_member(space, [5, 0])


def test_a_refusal_names_the_part_that_is_wrong():
    space = spaces.Dict(
        {"where": spaces.Tuple((spaces.Discrete(2), spaces.Text(3))), "why": spaces.Discrete(2)}
    )
    with pytest.raises(ValueError, match=r"action\.where\[0\] must be an integer from 0 to 1"):
        read_member(space, {"where": [7, "abc"], "why": 0}, "action")
    with pytest.raises(ValueError, match="an object with the keys 'where', 'why'"):
        read_member(space, {"where": [1, "abc"]}, "action")


class Strange(gymnasium.Space):
    pass


class Narrow(spaces.Discrete):
    pass


@pytest.mark.parametrize(
    "space",
    [Strange(), Narrow(2), spaces.Dict({"a": Strange()}), spaces.Dict({1: spaces.Discrete(2)})],
    ids=["strange", "subclass", "inside", "key"],
)
def test_a_space_without_a_json_form_is_an_error_that_says_which(space):
    with pytest.raises(ConfigurationError, match="has no JSON form"):
        describe_space(space)


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"type": "Bocks"}, "unknown space 'Bocks'; did you mean 'Box'"),
        ({"type": "Box"}, "no description of a Box: KeyError: 'shape'"),
        ({"type": "Box", "shape": [10**9], "dtype": "uint8", "low": 0, "high": 1}, "over the cap"),
        ({"type": "Box", "shape": [2], "dtype": "object", "low": 0, "high": 1}, "no description"),
        ({"type": "Box", "shape": [2], "dtype": "int8", "low": 3, "high": 1}, "no description"),
        ({"type": "Discrete", "n": "3", "start": 0, "dtype": "int64"}, "expected an integer"),
        ({"type": "Tuple", "spaces": [3]}, "no description of a space"),
        ([], "no description of a space"),
    ],
)  # fmt: skip
def test_what_describes_no_space_is_refused_in_one_line(description, said):
    with pytest.raises(ConfigurationError, match=said):
        space_of(description)


def test_a_description_nested_without_end_is_refused():
    description = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
    for _ in range(100):
        description = {"type": "Tuple", "spaces": [description]}
    with pytest.raises(ConfigurationError, match="no description of a space"):
        space_of(description)


def test_words_say_what_a_member_is():
    assert words(spaces.Discrete(3, start=-1)) == "an integer from -1 to 1"
    assert words(spaces.Box(0, np.inf, (3,))) == "a list of 3 numbers of at least 0.0"
    assert words(spaces.Box(-np.inf, np.inf, ())) == "a number"
    assert words(spaces.MultiBinary(2)) == "a list of 2 integers, each 0 or 1"


def test_an_info_keeps_its_arrays_and_loses_nothing_else():
    info = {
        "mask": np.array([1, 0], np.int8),
        "probability": np.float32(0.5),
        "nested": [{"flags": np.array([True, False])}, None, "x"],
        3: (1, 2),
        "odd": Strange,
    }
    back = unpack_info(over_the_wire(pack_info(info)))
    assert back["mask"].dtype == np.int8
    assert back["nested"][0]["flags"].tolist() == [True, False]
    assert back["probability"] == 0.5
    assert back["3"] == [1, 2]
    assert "Strange" in back["odd"]


def test_native_spaces_are_the_adapters_own_or_those_of_calls():
    class Calls(gymnasium.Env):
        action_space, observation_space = CallSpace(), ScreenSpace(4, 4)

    class Numbers(gymnasium.Env):
        action_space, observation_space = spaces.Discrete(2), spaces.Discrete(2)

    class Odd(gymnasium.Env):
        action_space, observation_space = CallSpace(), Strange()

    assert native_spaces(Calls())["observation_space"]["type"] == "ScreenSpace"
    assert native_spaces(Numbers()) is None
    assert native_spaces(Odd()) is None
    assert native_spaces(object()) is None
