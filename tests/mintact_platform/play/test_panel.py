"""Forms and mouse gestures from what an action space says of itself."""

from __future__ import annotations

import pytest

from mintact_platform.actions.described import described_space
from mintact_platform.actions.grid import Grid
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.config import Plugin
from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.play.overheard import space_of
from mintact_platform.play.panel import panel
from mintact_platform.registry.names import Registry

SPACES = [MobileUse(), ComputerUse(), BrowserUse(), ToolUse()]


def fields(offered, title):
    (action,) = (action for action in offered["actions"] if action["title"] == title)
    return {field["name"]: (field["kind"], field["required"]) for field in action["fields"]}


@pytest.mark.parametrize("space", SPACES[:3], ids=lambda space: space.name)
def test_every_action_of_a_screen_has_a_form_that_the_parser_accepts(space):
    values = {"point": [5, 5], "string": "a", "keys": ["a"], "number": 1, "integer": 1}
    offered = panel(space, ())
    assert [action["title"] for action in offered["actions"]] == list(space.actions)
    assert offered["grid"] == 999
    for action in offered["actions"]:
        for filled in ("required", "all"):
            arguments = dict(action["arguments"])
            for field in action["fields"]:
                if field["required"] or filled == "all":
                    chosen = field["options"][0] if field["options"] else None
                    arguments[field["name"]] = chosen or values.get(field["kind"], True)
            text = space.render("", type(space).parse and _call(action["name"], arguments))
            parsed = space.parse(text)
            assert isinstance(parsed, tuple), (action, parsed)
            assert parsed[0].arguments == arguments


def _call(name, arguments):
    from mintact_platform.actions.space import Call

    return Call(name, arguments)


@pytest.mark.parametrize(
    ("space", "gestures"),
    [
        (MobileUse(), {"click": "click", "hold": "long_press", "drag": "swipe"}),
        (BrowserUse(), {"click": "click"}),
        (
            ComputerUse(),
            {
                "click": "left_click",
                "double": "double_click",
                "right": "right_click",
                "middle": "middle_click",
                "drag": "left_click_drag",
            },
        ),
        (MobileUse(actions=("type", "terminate")), {}),
    ],
)
def test_the_mouse_does_what_the_space_has(space, gestures):
    offered = panel(space, ())
    assert {k: v for k, v in offered["gestures"].items() if v} == gestures


def test_required_fields_come_first_and_know_their_kind():
    offered = panel(BrowserUse(), ())
    assert fields(offered, "type") == {
        "text": ("string", True),
        "coordinate": ("point", False),
        "enter": ("boolean", False),
    }
    assert fields(offered, "scroll")["direction"] == ("choice", True)
    assert fields(panel(ComputerUse(), ()), "key") == {"keys": ("keys", True)}


def test_callable_tools_have_a_form_each_the_environments_first():
    schema = {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {
                "seats": {"type": "integer", "minimum": 1},
                "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "extras": {"type": "array", "items": {"type": "string"}},
                "class": {"enum": ["first", "second"]},
            },
            "required": ["class", "seats"],
        },
    }
    bare = {"type": "function", "function": {"name": "nap"}}
    offered = panel(ToolUse(), [schema, bare])
    titles = [action["title"] for action in offered["actions"]]
    assert titles == ["book", "nap", "search_tool", "answer", "terminate"]
    assert fields(offered, "book") == {
        "seats": ("integer", True),
        "class": ("choice", True),
        "when": ("string", False),
        "extras": ("json", False),
    }
    assert fields(offered, "nap") == {}
    assert not offered["points"]


def test_a_space_that_says_nothing_leaves_the_response_box():
    class Silent:
        name, domain = "silent", "web"
        grid = Grid()

    assert panel(Silent(), ())["actions"] == []


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_a_space_known_by_its_description_alone_has_the_same_panel(space):
    twin = described_space(space.describe())()
    assert panel(twin, ()) == panel(space, ())


def test_the_action_space_is_the_one_asked_for_else_the_environments_own():
    registry = Registry.discover()
    short = Plugin(name="mobile_use", params={"prompt": "short"})
    assert space_of(short, {"action_space": "browser_use"}, registry).prompt == "short"
    assert space_of(None, {"action_space": "browser_use"}, registry).name == "browser_use"
    foreign = {**MobileUse().describe(), "name": "acme_use"}
    described = {"action_space": "acme_use", "action_space_schema": foreign}
    assert space_of(None, described, registry).name == "acme_use"
    with pytest.raises(PluginNotFound):
        space_of(None, {"action_space": "acme_use"}, registry)
    with pytest.raises(ConfigurationError, match="--action-space"):
        space_of(None, {}, registry)
