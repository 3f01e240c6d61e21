import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_micro.scene import SIZE, Layout, hit
from mintact_env_micro.tasks import DOMAINS

from mintact_platform.errors import ConfigurationError

LAYOUT = Layout()
DRAWN = [name for name in DOMAINS if name != "web"]


def oracle(state, act):
    calls = []
    while not state.ended:
        call = state.decisions()[0].call
        calls.append(call)
        state = act(state, call)
    return state, calls


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_first_decision_always_leads_to_success(domain, act):
    for seed in range(50):
        state, calls = oracle(DOMAINS[domain].start(seed, LAYOUT), act)
        assert state.check().success
        assert len(calls) < state.max_turns + (domain == "web")
        assert calls[-1].ends


@pytest.mark.parametrize("domain", DOMAINS)
def test_any_wrong_decision_fails_the_task(domain, act):
    for seed in range(20):
        start = DOMAINS[domain].start(seed, LAYOUT)
        for turn in range(len(oracle(start, act)[1])):
            state = start
            for _ in range(turn):
                state = act(state, state.decisions()[0].call)
            for wrong in state.decisions()[1:]:
                ended, _ = oracle(act(state, wrong.call), act)
                assert not ended.check().success


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_right_calls_in_another_order_fail(domain, act):
    for seed in range(20):
        start = DOMAINS[domain].start(seed, LAYOUT)
        calls = oracle(start, act)[1]
        ending = calls[-1]
        state = start
        for call in reversed(calls[:-1]):
            state = act(state, call)
        assert not act(state, ending).check().success
        assert not act(start, ending).check().success


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_goal_state_counts_only_once_the_agent_ended(domain, act):
    state = DOMAINS[domain].start(3, LAYOUT)
    while True:
        call = state.decisions()[0].call
        if call.ends:
            break
        state = act(state, call)
    check = state.check()
    assert not check.success
    assert 0 < check.score < 1
    assert check.details["ended"] is False


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_seed_gives_the_same_episode_and_another_seed_another(domain):
    kind = DOMAINS[domain]
    assert kind.start(5, LAYOUT) == kind.start(5, LAYOUT)
    assert len({kind.start(seed, LAYOUT).goal for seed in range(40)}) >= 8


values = st.recursive(
    st.none() | st.booleans() | st.integers(-300, 300) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
names = st.sampled_from(
    ["mobile_use", "computer_use", "browser_use", "search_tool", "terminate", "share_1", "", "x"]
)
actions = st.sampled_from(
    ["click", "left_click", "right_click", "type", "terminate", "stop", "wait", "fly", None]
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "action": actions,
        "coordinate": values,
        "text": values,
        "query": values,
        "color": values,
    },
)


@pytest.mark.parametrize("domain", DOMAINS)
@given(calls=st.lists(st.tuples(names, arguments), max_size=8), seed=st.integers(0, 1000))
def test_no_call_ever_breaks_a_state(domain, calls, seed):
    state = DOMAINS[domain].start(seed, LAYOUT)
    for name, given_arguments in calls:
        state = state.apply(name, given_arguments)
        assert isinstance(state.text, str)
        assert isinstance(state.note, str)
        json.dumps(state.check().details)
        assert state.ended or state.decisions()


@pytest.mark.parametrize("domain", DRAWN)
def test_a_foreign_call_changes_only_the_note(domain):
    state = DOMAINS[domain].start(0, LAYOUT)
    after = state.apply("browser_use", {"action": "click", "coordinate": [5, 5]})
    assert "nothing happens" in after.note
    assert (after.render() == state.render()).all()
    assert not after.ended


@pytest.mark.parametrize("domain", DRAWN)
def test_screens_are_128_pixels_square_and_elements_stand_in_them(domain):
    for seed in range(20):
        for state in (
            DOMAINS[domain].start(seed, LAYOUT),
            DOMAINS[domain].start(seed, LAYOUT).inside(),
        ):
            assert state.render().shape == (SIZE, SIZE, 3)
            for name, (x0, y0, x1, y1) in state.elements():
                assert 0 <= x0 < x1 < SIZE
                assert 0 <= y0 < y1 < SIZE
                assert name


@pytest.mark.parametrize("domain", ["mobile", "desktop", "web"])
def test_every_element_of_the_drawn_domains_fills_most_of_one_grid_cell(domain):
    for seed in range(20):
        for _, (x0, y0, x1, y1) in DOMAINS[domain].start(seed, LAYOUT).elements():
            column, row = int((x0 + x1) / 64), int((y0 + y1) / 64)
            inside = (min(x1, column * 32 + 32) - max(x0, column * 32)) * (
                min(y1, row * 32 + 32) - max(y0, row * 32)
            )
            assert inside > 0.9 * (x1 - x0) * (y1 - y0)


def test_the_second_screen_is_the_one_the_right_first_action_shows(act):
    for domain in ("mobile", "desktop"):
        state = DOMAINS[domain].start(7, LAYOUT)
        assert act(state, state.decisions()[0].call) == state.inside()


def test_turning_a_switch_twice_turns_it_off(act):
    state = DOMAINS["mobile"].start(1, LAYOUT).inside()
    click = state.decisions()[0].call
    assert act(act(state, click), click).on == frozenset()


def test_a_tool_is_unknown_before_the_search_and_called_only_once(act):
    state = DOMAINS["tools"].start(2, LAYOUT)
    colour = state.colours[state.shape]
    early = state.apply(state.tool, {"color": colour})
    assert early.text == "error"
    found = act(early, early.decisions()[0].call)
    assert json.loads(found.text) == {"tools": [state.tool]}
    twice = found.apply(state.tool, {"color": "beige"}).apply(state.tool, {"color": colour})
    assert not twice.apply("terminate", {"status": "success"}).check().success


def test_a_hit_needs_two_numbers_inside_the_screen():
    elements = (("red", (0.0, 0.0, 127.0, 127.0)),)
    assert hit(elements, [127, 127]) == "red"
    for wrong in ([128, 0], [-1, 0], [1], "11", None, [float("nan"), 1], [None, 1]):
        assert hit(elements, wrong) is None


@pytest.mark.parametrize("values", [(9, 6, 3), (4, 9, 3), (4, 2, 0), (4, 6, 4)])
def test_an_impossible_layout_is_refused_in_one_line(values):
    with pytest.raises(ConfigurationError, match="must be"):
        Layout(*values)
