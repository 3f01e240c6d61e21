import json

import pytest
from mintact_env_web.actions import BrowserUseExtended
from mintact_env_web.browser.hands import Hands

from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.actions.ui import BrowserUse
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry

TASK = Task("t", "do it", "web")


def test_the_extended_space_is_registered_and_is_an_action_space():
    space = Registry.discover().get("action_spaces", "browser_use_extended")()
    assert isinstance(space, BrowserUseExtended)
    assert isinstance(space, ActionSpace)
    assert (space.name, space.domain) == ("browser_use_extended", "web")


def test_the_extended_space_offers_all_of_the_plain_one_and_more():
    plain, extended = BrowserUse(), BrowserUseExtended()
    more = {"drag", "new_tab", "switch_tab", "close_tab", "upload", "select_option"}
    assert set(extended.actions) == set(plain.actions) | more
    prompt = extended.system_prompt(TASK)
    assert all(f"`{name}`" in prompt for name in extended.actions)


@pytest.mark.parametrize("name", ["drag", "upload", "new_tab", "switch_tab", "select_option"])
def test_the_plain_space_refuses_what_only_the_extended_one_has(name):
    text = json.dumps({"name": "browser_use", "arguments": {"action": name}})
    read = BrowserUse().parse(f"<tool_call>{text}</tool_call>")
    assert isinstance(read, ParseError)


@pytest.mark.parametrize("arguments", [
    {"action": "drag", "coordinate": [1, 2], "coordinate2": [500, 999]},
    {"action": "new_tab"},
    {"action": "switch_tab", "tab": 2},
    {"action": "close_tab"},
    {"action": "upload", "file": "a.txt", "coordinate": [5, 5]},
    {"action": "select_option", "coordinate": [5, 5], "option": "Red"},
    {"action": "click", "coordinate": [5, 5]},
])  # fmt: skip
def test_what_is_rendered_is_read_back(arguments):
    space = BrowserUseExtended()
    call = Call("browser_use_extended", arguments)
    assert space.parse(space.render("so", call)) == (call,)


def test_both_points_of_a_drag_become_pixels():
    space = BrowserUseExtended()
    call = Call(space.name, {"action": "drag", "coordinate": [0, 0], "coordinate2": [999, 999]})
    moved = space.to_pixels(call, 1280, 720).arguments
    assert (moved["coordinate"], moved["coordinate2"]) == ([0, 0], [1279, 719])


def test_every_action_of_the_spaces_has_a_hand():
    assert set(Hands(None)._actions) | {"stop"} == set(BrowserUseExtended().actions)
