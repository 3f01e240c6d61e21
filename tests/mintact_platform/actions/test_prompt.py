"""System prompts: signatures from the argument models, long and short from one source."""

import json
import re

import pytest

from mintact_platform.actions.prompt import function_schema
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.records.task import Task

SCREENS = (MobileUse, ComputerUse, BrowserUse)
TASK = Task("1", "do it", "mobile")


def signatures(prompt):
    block = re.search(r"<tools>\n(.*)\n</tools>", prompt, re.DOTALL)
    return [json.loads(line)["function"] for line in block[1].splitlines()]


@pytest.mark.parametrize("kind", SCREENS)
def test_a_screen_offers_one_function_with_an_action_to_choose(kind):
    prompt = kind().system_prompt(TASK)
    (function,) = signatures(prompt)
    assert prompt.startswith("# Tools\n")
    assert "# Response format" in prompt
    assert function["name"] == kind.name
    assert function["parameters"]["required"] == ["action"]
    assert function["parameters"]["properties"]["action"]["enum"] == list(kind().actions)
    assert function == kind().schema()["function"]


@pytest.mark.parametrize("kind", SCREENS)
def test_every_action_and_argument_is_described_without_pydantics_own_words(kind):
    parameters = kind().schema()["function"]["parameters"]
    described = parameters["properties"]["action"]["description"]
    for action in kind().actions:
        assert f"`{action}`: " in described
    for field in parameters["properties"].values():
        assert field["description"]
        assert not field.keys() & {"title", "default", "anyOf", "$ref"}


def test_the_actions_of_each_domain_are_those_of_its_table():
    assert list(MobileUse().actions) == (
        "click long_press swipe type system_button open wait answer terminate".split()
    )
    assert set(ComputerUse().actions) == set(
        "left_click right_click middle_click double_click triple_click mouse_move left_click_drag "
        "scroll hscroll type key key_down key_up wait answer terminate".split()
    )
    assert list(BrowserUse().actions) == (
        "click hover type press scroll go_back go_forward wait stop".split()
    )


def test_the_grid_is_a_property_that_the_prompt_tells():
    assert "[999, 999]" in MobileUse().system_prompt(TASK)
    assert "[1000, 1000]" in MobileUse(grid=1000).system_prompt(TASK)
    assert "pixels of the screenshot" in MobileUse(grid=0).system_prompt(TASK)


def test_short_prompts_name_the_main_actions():
    assert MobileUse(prompt="short").system_prompt(TASK) == (
        "Phone. mobile_use: click, type, swipe, terminate."
    )
    assert ComputerUse(prompt="short").system_prompt(TASK) == (
        "Desktop. computer_use: left_click, right_click, type, terminate."
    )
    assert (
        BrowserUse(prompt="short").system_prompt(TASK) == "Browser. browser_use: click, type, stop."
    )
    assert ToolUse(prompt="short").system_prompt(TASK) == "Tools. search_tool, answer, terminate."


def test_a_chosen_set_of_actions_is_all_that_either_form_shows():
    chosen = ("click", "terminate")
    short = MobileUse(prompt="short", actions=chosen).system_prompt(TASK)
    full = MobileUse(actions=chosen).system_prompt(TASK)
    assert short == "Phone. mobile_use: click, terminate."
    assert signatures(full)[0]["parameters"]["properties"]["action"]["enum"] == list(chosen)
    assert "swipe" not in full


def test_a_prompt_does_not_depend_on_the_task_so_that_its_tokens_are_shared():
    other = Task("2", "something else", "mobile")
    for kind in (*SCREENS, ToolUse):
        assert kind().system_prompt(TASK) == kind().system_prompt(other)


def tool(name, **properties):
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


def test_tools_come_from_the_environment_in_its_order_beside_our_own():
    tools = [tool("b", x={"type": "integer"}), {"type": "function", "function": tool("a")}]
    names = [f["name"] for f in signatures(ToolUse().system_prompt(TASK, tools))]
    assert names == ["search_tool", "answer", "terminate", "b", "a"]
    short = ToolUse(prompt="short", search=False).system_prompt(TASK, tools)
    assert short == "Tools. answer, terminate, b(x), a()."


def test_an_environment_may_describe_search_tool_itself():
    mine = {"name": "search_tool", "description": "mine", "parameters": {"type": "object"}}
    listed = signatures(ToolUse().system_prompt(TASK, [mine]))
    assert [f["description"] for f in listed if f["name"] == "search_tool"] == ["mine"]


def test_the_tools_can_be_told_in_a_message_of_their_own():
    space = ToolUse()
    assert space.tools_message([tool("a")]) in space.system_prompt(TASK, [tool("a")])
    assert ToolUse(prompt="short").tools_message([tool("a")]).endswith("terminate, a().")


def test_a_schema_says_which_arguments_an_action_needs():
    described = function_schema("f", "", MobileUse.all_actions)["function"]["parameters"]
    text = described["properties"]["action"]["description"]
    assert (
        "`swipe`: Move a finger from `coordinate` to `coordinate2`. Needs `coordinate` and" in text
    )
    assert described["properties"]["time"]["description"].endswith("Used by long_press, wait.")
