"""The four action spaces: own actions only, checked arguments, coordinates both ways."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.actions.arguments import COORDINATES
from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

SCREENS = (MobileUse, ComputerUse, BrowserUse)
ALL = (*SCREENS, ToolUse)


def written(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def one(space, text, tools=()):
    calls = space.parse(text, tools)
    assert not isinstance(calls, ParseError), calls
    (call,) = calls
    return call


def refused(space, text, tools=()):
    answer = space.parse(text, tools)
    assert isinstance(answer, ParseError), answer
    return answer.message


@pytest.mark.parametrize("name", ["mobile_use", "computer_use", "browser_use", "tool_use"])
def test_a_run_file_finds_each_space_under_its_name(name):
    target = Registry.discover().get("action_spaces", name)
    space = bind(target, {"prompt": "short", "grid": 1000}, where=name)()
    assert isinstance(space, ActionSpace)
    assert space.name == name


def test_a_run_file_may_list_the_actions_offered():
    space = bind(MobileUse, {"actions": ["click"]}, where="action space")()
    assert list(space.actions) == ["click"]
    with pytest.raises(ConfigurationError, match="did you mean 'click'"):
        MobileUse(actions=("clik",))


def test_a_response_is_rendered_exactly_so():
    call = Call("mobile_use", {"coordinate": [500, 120], "action": "click"})
    assert MobileUse().render("tap it", call) == (
        '<think>tap it</think><tool_call>{"name": "mobile_use", "arguments": '
        '{"action": "click", "coordinate": [500, 120]}}</tool_call>'
    )


EXAMPLES = [
    (MobileUse, "click", {"coordinate": [1, 2]}),
    (MobileUse, "long_press", {"coordinate": [1, 2], "time": 2.0}),
    (MobileUse, "swipe", {"coordinate": [1, 2], "coordinate2": [3, 4]}),
    (MobileUse, "type", {"text": "hi\nthere ✓"}),
    (MobileUse, "system_button", {"button": "Home"}),
    (MobileUse, "open", {"text": "Maps"}),
    (MobileUse, "wait", {"time": 1.0}),
    (MobileUse, "answer", {"text": "42"}),
    (MobileUse, "terminate", {"status": "failure"}),
    (ComputerUse, "left_click", {"coordinate": [1, 2]}),
    (ComputerUse, "left_click", {}),
    (ComputerUse, "right_click", {"coordinate": [1, 2]}),
    (ComputerUse, "middle_click", {"coordinate": [1, 2]}),
    (ComputerUse, "double_click", {"coordinate": [1, 2]}),
    (ComputerUse, "triple_click", {"coordinate": [1, 2]}),
    (ComputerUse, "mouse_move", {"coordinate": [1, 2]}),
    (ComputerUse, "left_click_drag", {"coordinate": [1, 2]}),
    (ComputerUse, "scroll", {"pixels": -5}),
    (ComputerUse, "hscroll", {"pixels": 5}),
    (ComputerUse, "type", {"text": "hi"}),
    (ComputerUse, "key", {"keys": ["ctrl", "c"]}),
    (ComputerUse, "key_down", {"keys": ["shift"]}),
    (ComputerUse, "key_up", {"keys": ["shift"]}),
    (ComputerUse, "wait", {}),
    (ComputerUse, "answer", {"text": "42"}),
    (ComputerUse, "terminate", {"status": "success"}),
    (BrowserUse, "click", {"coordinate": [1, 2]}),
    (BrowserUse, "hover", {"coordinate": [1, 2]}),
    (BrowserUse, "type", {"text": "hi"}),
    (BrowserUse, "type", {"text": "hi", "coordinate": [1, 2], "enter": True}),
    (BrowserUse, "press", {"key": "ctrl+a"}),
    (BrowserUse, "scroll", {"direction": "down"}),
    (BrowserUse, "scroll", {"direction": "up", "amount": 300}),
    (BrowserUse, "go_back", {}),
    (BrowserUse, "go_forward", {}),
    (BrowserUse, "wait", {}),
    (BrowserUse, "stop", {"response": "42"}),
]


@pytest.mark.parametrize(("kind", "action", "arguments"), EXAMPLES)
def test_what_is_rendered_is_read_back(kind, action, arguments):
    space = kind()
    call = Call(space.name, {"action": action, **arguments}, ends=action in ("terminate", "stop"))
    assert one(space, space.render("so", call)) == call


def test_the_examples_cover_every_action():
    for kind in SCREENS:
        assert {a for k, a, _ in EXAMPLES if k is kind} == set(kind().actions)


@pytest.mark.parametrize("kind", SCREENS)
def test_actions_of_other_domains_are_refused_with_what_is_offered(kind):
    own = set(kind().actions) | set(kind.aliases)
    foreign = {(k, a) for k in SCREENS for a in k().actions if a not in own}
    for _, action in foreign:
        message = refused(kind(), written(kind.name, action=action, coordinate=[1, 2]))
        assert f"no action {action!r}" in message
        assert all(name in message for name in kind().actions)
    for other in SCREENS:
        if other is not kind:
            assert "unknown function" in refused(kind(), written(other.name, action="wait"))


def test_a_browser_agent_is_never_offered_long_press():
    assert "long_press" not in json.dumps(BrowserUse().schema())
    assert "no action 'long_press'" in refused(
        BrowserUse(), written("browser_use", action="long_press", coordinate=[1, 2])
    )


def test_an_action_called_as_a_function_is_that_action():
    assert one(MobileUse(), written("click", coordinate=[1, 2])).to_json() == {
        "name": "mobile_use",
        "arguments": {"action": "click", "coordinate": [1, 2]},
    }
    assert (
        one(MobileUse(), written("click", action="click", coordinate=[1, 2])).name == "mobile_use"
    )
    assert one(MobileUse(), '<tool_call>{"action": "wait"}').arguments == {"action": "wait"}


def test_a_bare_click_on_a_desktop_is_a_left_click():
    for text in (
        written("computer_use", action="click", coordinate=[1, 2]),
        written("click", coordinate=[1, 2]),
    ):
        assert one(ComputerUse(), text).arguments["action"] == "left_click"


@pytest.mark.parametrize(
    ("kind", "given", "arguments"),
    [
        (MobileUse, {"action": "click", "coordinate": "(5, 6)"}, {"coordinate": [5, 6]}),
        (MobileUse, {"action": "click", "coordinate": [[4, 4, 6, 8]]}, {"coordinate": [5, 6]}),
        (
            MobileUse,
            {"action": "click", "coordinate": [5, 6], "time": None},
            {"coordinate": [5, 6]},
        ),
        (MobileUse, {"action": "click", "coordinate": [5, 6], "text": "x"}, {"coordinate": [5, 6]}),
        (MobileUse, {"action": " wait ", "time": "2"}, {"time": 2.0}),
        (MobileUse, {"action": "system_button", "button": "back"}, {"button": "Back"}),
        (MobileUse, {"action": "terminate", "status": "SUCCESS"}, {"status": "success"}),
        (ComputerUse, {"action": "key", "keys": "ctrl+c"}, {"keys": ["ctrl", "c"]}),
        (ComputerUse, {"action": "key", "keys": "keys=['ctrl'"}, {"keys": ["ctrl"]}),
        (ComputerUse, {"action": "scroll", "pixels": "-3"}, {"pixels": -3}),
        (BrowserUse, {"action": "press", "key": ["ctrl", "a"]}, {"key": "ctrl+a"}),
        (BrowserUse, {"action": "scroll", "direction": "Down"}, {"direction": "down"}),
        (BrowserUse, {"action": "type", "text": "hi\\n"}, {"text": "hi\n"}),
        (BrowserUse, {"action": "stop"}, {}),
    ],
)
def test_arguments_are_read_tolerantly(kind, given, arguments):
    call = one(kind(), written(kind.name, **given))
    assert call.arguments == {"action": given["action"].strip(), **arguments}


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (MobileUse, {"action": "click"}, "click: argument 'coordinate' is missing"),
        (MobileUse, {"action": "click", "coordinate": ["five", "six"]}, "must be two numbers"),
        (MobileUse, {"action": "click", "coordinat": [1, 2]}, "did you mean 'coordinate'?"),
        (MobileUse, {"action": "wait", "time": 3600}, "less than or equal to 10"),
        (MobileUse, {"action": "terminate", "status": "maybe"}, "'success' or 'failure'"),
        (MobileUse, {"action": "type", "text": 5}, "valid string"),
        (MobileUse, {"coordinate": [1, 2]}, "needs an action"),
        (MobileUse, {"action": ["click"]}, "needs an action"),
        (ComputerUse, {"action": "scroll", "pixels": 2**40}, "less than or equal"),
        (ComputerUse, {"action": "key", "keys": []}, "at least one key"),
    ],
)
def test_bad_arguments_are_refused_in_words_the_model_can_use(kind, given, said):
    assert said in refused(kind(), written(kind.name, **given))


def test_calls_after_the_one_that_ends_are_not_made():
    text = written("browser_use", action="go_back") + written("browser_use", action="stop")
    calls = BrowserUse().parse(text + written("browser_use", action="wait"))
    assert [(c.arguments["action"], c.ends) for c in calls] == [("go_back", False), ("stop", True)]


def test_one_bad_call_refuses_the_whole_turn():
    text = written("browser_use", action="go_back") + written("browser_use", action="fly")
    assert "no action 'fly'" in refused(BrowserUse(), text)


def test_every_field_that_holds_a_point_is_converted():
    for kind in SCREENS:
        for model in kind.all_actions:
            for name, field in model.model_fields.items():
                is_point = "read_point" in repr(field.metadata) or "read_point" in repr(
                    field.annotation
                )
                assert is_point == (name in COORDINATES)


def test_coordinates_become_pixels_of_the_screenshot_inside_it():
    call = one(
        MobileUse(),
        written("mobile_use", action="swipe", coordinate=[500, 0], coordinate2=[999, 5000]),
    )
    pixels = MobileUse().to_pixels(call, 1280, 720)
    assert pixels.arguments == {
        "action": "swipe",
        "coordinate": [640, 0],
        "coordinate2": [1279, 719],
    }
    assert call.arguments["coordinate"] == [500, 0]


def test_the_end_of_the_task_survives_conversion():
    call = one(BrowserUse(), written("browser_use", action="stop", response="x"))
    assert BrowserUse().to_pixels(call, 10, 10).ends
    assert BrowserUse().to_grid(call, 10, 10).ends


@given(st.data(), st.sampled_from([0, 999, 1000]))
def test_pixels_come_back_through_the_grid(data, grid):
    width, height = data.draw(st.integers(1, 4000)), data.draw(st.integers(1, 4000))
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    space = MobileUse(grid=grid)
    call = Call("mobile_use", {"action": "click", "coordinate": [x, y]})
    back = space.to_pixels(space.to_grid(call, width, height), width, height)
    for there, here, extent in zip(
        (x, y), back.arguments["coordinate"], (width, height), strict=True
    ):
        assert abs(there - here) <= (extent / (2 * grid) + 1 if grid else 0)


TOOLS = [{"name": "share_5", "parameters": {"type": "object", "properties": {"color": {}}}}]


def test_tools_that_are_callable_now_are_accepted_and_others_refused_with_the_near_match():
    space = ToolUse()
    call = one(space, written("share_5", color="red"), TOOLS)
    assert call == Call("share_5", {"color": "red"})
    assert "did you mean 'share_5'?" in refused(space, written("share_4", color="red"), TOOLS)
    assert "no tool named 'share_5'" in refused(space, written("share_5", color="red"))


def test_tools_end_with_terminate_and_always_offer_search_and_answer():
    space = ToolUse()
    assert one(space, written("terminate", status="success")).ends
    assert not one(space, written("answer", text="42")).ends
    assert one(space, written("search_tool", query="x")).name == "search_tool"
    assert "no tool named" in refused(ToolUse(search=False), written("search_tool", query="x"))


def test_tools_announced_in_replies_only_are_called_where_that_is_wanted():
    space = ToolUse(unlisted="call")
    assert one(space, written("share_4", color="red")) == Call("share_4", {"color": "red"})
    assert "no tool named ''" in refused(space, '<tool_call>{"color": "red"}</tool_call>')


def test_a_response_without_a_call_is_an_answer_only_where_that_is_wanted():
    text = "<think>hm</think> The total is 42."
    assert "no tool call found" in refused(ToolUse(), text)
    space = ToolUse(plain_text="answer")
    assert one(space, text) == Call("answer", {"text": "The total is 42."})
    assert one(space, "so \ud83d").arguments == {"text": "so \ufffd"}
    assert "no tool call found" in refused(space, "<think>hm</think> ")
    assert one(space, written("answer", text="x")).arguments == {"text": "x"}


def test_what_a_tool_returned_is_marked_and_a_screens_words_are_not():
    assert ToolUse().observation_text("ok") == "<tool_response>\nok\n</tool_response>"
    assert ToolUse(prompt="short").observation_text("ok") == "<tool_response>ok</tool_response>"
    assert ToolUse().observation_text("") == ""
    assert MobileUse().observation_text("ok") == "ok"


names = st.sampled_from(
    ["mobile_use", "computer_use", "browser_use", "click", "type", "terminate", "share_5", "", "x"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=6,
)
fields = st.sampled_from(
    "action coordinate coordinate2 text keys key time status button pixels direction enter".split()
)
actions = st.sampled_from(sorted({a for kind in SCREENS for a in kind().actions}))


@given(names, st.dictionaries(fields, values, max_size=4), st.none() | actions)
def test_parsing_never_raises_and_what_it_accepts_can_be_sent(name, given, action):
    arguments = given if action is None else {**given, "action": action}
    for kind in ALL:
        space = kind()
        calls = space.parse(written(name, **arguments), TOOLS)
        for call in () if isinstance(calls, ParseError) else calls:
            pixels = space.to_pixels(call, 640, 480)
            json.dumps(pixels.to_json(), allow_nan=False)
            for field in set(COORDINATES) & set(pixels.arguments) if kind is not ToolUse else ():
                x, y = pixels.arguments[field]
                assert 0 <= x < 640
                assert 0 <= y < 480
