"""An action space built from its description is the original in everything a rollout sees."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.actions.described import described_space
from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task

SPACES = (MobileUse, ComputerUse, BrowserUse, ToolUse)
SCREENS = SPACES[:3]
TASK = Task("t", "open the shop", "web")
TOOLS = (
    {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}},
    {"type": "function", "function": {"name": "answer", "description": "Differently."}},
)

VERBS = sorted({verb for kind in SCREENS for verb in kind().actions} | {"tap", "", "Click"})
FIELDS = sorted({field for kind in SCREENS for field in kind()._fields} | {"other"})
numbers = st.integers(-(10**10), 10**10) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.text(max_size=8)
    | st.sampled_from(["ctrl+c", "keys=['ctrl'", "(3, 4)", "UP", "success", "back", "a\\nb", "7"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4).flatmap(
    lambda given: st.sampled_from(VERBS).map(lambda verb: {**given, "action": verb})
)
functions = st.sampled_from([kind.name for kind in SPACES] + ["weather", "answer", "terminate", ""])
responses = (
    st.builds(lambda name, args: {"name": name, "arguments": args}, functions, arguments)
    .map(json.dumps)
    .flatmap(lambda body: st.sampled_from([body, f"<tool_call>{body}", f"<think>x</think>{body}"]))
) | st.text(max_size=40)


def rebuilt(space: ActionSpace, **params: object) -> ActionSpace:
    """Over a wire and back."""
    return described_space(json.loads(json.dumps(space.describe())))(**params)


@pytest.fixture(scope="module")
def pairs():
    """Every space in both forms, beside the space built from its description."""
    return [
        (kind(prompt=form), rebuilt(kind(), prompt=form))
        for kind in SPACES
        for form in ("full", "short")
    ]


@given(text=responses)
def test_it_parses_every_response_as_the_original_does(pairs, text):
    for original, other in pairs:
        assert other.parse(text, TOOLS) == original.parse(text, TOOLS)


@given(given=arguments, width=st.integers(1, 4000), height=st.integers(1, 4000))
def test_it_moves_and_renders_every_call_as_the_original_does(pairs, given, width, height):
    for original, other in pairs:
        body = json.dumps({"name": original.name, "arguments": given})
        calls = original.parse(body, TOOLS)
        for call in () if isinstance(calls, ParseError) else calls:
            pixels = original.to_pixels(call, width, height)
            assert other.to_pixels(call, width, height) == pixels
            assert other.to_grid(pixels, width, height) == original.to_grid(pixels, width, height)
            assert other.render("why", call) == original.render("why", call)


def test_its_prompts_are_the_originals_to_the_letter(pairs):
    for original, other in pairs:
        for tools in ((), TOOLS):
            assert other.system_prompt(TASK, tools) == original.system_prompt(TASK, tools)
        assert other.observation_text("words") == original.observation_text("words")


def test_its_description_describes_itself(pairs):
    for original, other in pairs:
        assert other.describe() == original.describe()


@pytest.mark.parametrize("grid", [0, 1000])
@pytest.mark.parametrize("kind", SCREENS)
def test_it_takes_the_originals_parameters(kind, grid):
    verb = next(iter(kind().actions))
    original = kind(grid=grid, actions=(verb,))
    for other in (rebuilt(kind(), grid=grid, actions=(verb,)), rebuilt(original)):
        assert other.system_prompt(TASK) == original.system_prompt(TASK)
        assert other.describe() == original.describe()


def test_a_described_tool_space_takes_the_originals_parameters():
    params = {"search": False, "plain_text": "answer", "unlisted": "call"}
    original = ToolUse(**params)
    for other in (rebuilt(ToolUse(), **params), rebuilt(original)):
        assert other.system_prompt(TASK) == original.system_prompt(TASK)
        for text in ("it is sunny", '{"name": "unheard_of", "arguments": {}}'):
            assert other.parse(text) == original.parse(text)


def test_a_function_without_its_actions_is_read_from_its_schema():
    (function,) = MobileUse().describe()["functions"]
    space = described_space(
        {
            "name": "mobile_use",
            "domain": "mobile",
            "style": "ui",
            "functions": [function],
            "ends": ["terminate"],
        }
    )()
    body = '{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 0]}}'
    (call,) = space.parse(body)
    assert space.to_pixels(call, 100, 100) == Call(
        "mobile_use", {"action": "click", "coordinate": [50, 0]}
    )
    (end,) = space.parse('{"action": "terminate", "status": "success"}')
    assert end.ends
    assert isinstance(space.parse('{"action": "terminate", "status": "maybe"}'), ParseError)


def test_a_tool_space_of_others_has_its_own_tools_and_ending():
    tool = {"name": "finish", "description": "The end.", "parameters": {"type": "object"}}
    space = described_space(
        {
            "name": "acme/tools",
            "domain": "tools",
            "style": "tools",
            "functions": [tool],
            "ends": ["finish"],
        }
    )()
    (call,) = space.parse('{"name": "finish", "arguments": {}}')
    assert call.ends
    assert "call `finish`" in space.system_prompt(TASK)
    assert isinstance(space.parse('{"name": "terminate", "arguments": {}}'), ParseError)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"style": "pyautogui"}, "install the plugin that brings it"),
        ({"functions": []}, "no description of an action space"),
        ({"grid": -1}, "a grid needs 0 or more steps"),
        ({"grid": "wide"}, "no description of an action space"),
        ({"actions": [{"name": "click"}]}, "KeyError: 'properties'"),
    ],
)
def test_what_is_no_description_is_refused_in_one_line(change, said):
    with pytest.raises(ConfigurationError, match=said) as raised:
        described_space({**MobileUse().describe(), **change})
    assert "\n" not in str(raised.value)


def test_an_argument_read_in_an_unknown_way_asks_for_a_newer_version():
    description = json.loads(json.dumps(MobileUse().describe()))
    description["actions"][0]["properties"]["coordinate"]["reads"] = "pointt"
    with pytest.raises(ConfigurationError, match=r"did you mean 'point'.* upgrade"):
        described_space(description)
