"""Every way an action space can be wrong is caught by the check that is about it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mintact_platform.actions.space import Call, ParseError
from mintact_platform.actions.ui import BrowserUse, MobileUse, ToolUse
from mintact_platform.testing import ConformanceError, check_action_space


def caught(specimen: Any, **params: Any) -> str:
    with pytest.raises(ConformanceError) as failure:
        check_action_space(specimen, **params)
    return str(failure.value)


class Incomplete:
    name, domain = "mine", "web"

    def system_prompt(self, task, tools=()):
        return "say something"


class Unsteady(MobileUse):
    numbers = itertools.count()

    def __init__(self):
        super().__init__()
        self.number = next(self.numbers)

    def system_prompt(self, task, tools=()):
        return f"{super().system_prompt(task, tools)} {self.number}"


class Silent(MobileUse):
    def system_prompt(self, task, tools=()):
        return " "


class Wordless(MobileUse):
    def observation_text(self, text):
        return None


class Undescribed(MobileUse):
    describe = None

    def system_prompt(self, task, tools=()):
        return "tap where you like"


class PromisesMore(MobileUse):
    """Its prompt offers what its parser does not take."""

    def __init__(self):
        super().__init__(actions=("click", "terminate"))

    def schema(self):
        return MobileUse().schema()


class TakesMore(MobileUse):
    """Its parser takes what its prompt does not offer."""

    def schema(self):
        return MobileUse(actions=("click", "terminate")).schema()


class LosesArguments(MobileUse):
    def render(self, thought, call):
        return super().render(thought, Call(call.name, {"action": "wait"}))


class Rounds(MobileUse):
    """Changes a value while reading it."""

    def parse(self, text, tools=()):
        parsed = super().parse(text, tools)
        if isinstance(parsed, ParseError) or "coordinate" not in parsed[0].arguments:
            return parsed
        moved = {**parsed[0].arguments, "coordinate": [1, 1]}
        return (Call(parsed[0].name, moved, parsed[0].ends),)


class TakesAnything(ToolUse):
    def parse(self, text, tools=()):
        parsed = super().parse(text, tools)
        return (Call("fly_to_the_moon", {}),) if isinstance(parsed, ParseError) else parsed


class Raises(MobileUse):
    def parse(self, text, tools=()):
        if "nested" in text or text.startswith("no call"):
            raise ValueError("cannot read this")
        return super().parse(text, tools)


class Mute(MobileUse):
    def parse(self, text, tools=()):
        parsed = super().parse(text, tools)
        return ParseError("") if isinstance(parsed, ParseError) else parsed


class ReturnsNone(MobileUse):
    def parse(self, text, tools=()):
        parsed = super().parse(text, tools)
        return None if isinstance(parsed, ParseError) else parsed


class Forgetful(MobileUse):
    """Reads the same words differently each time."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def parse(self, text, tools=()):
        parsed = super().parse(text, tools)
        self.count += 1
        return ParseError(f"number {self.count}") if isinstance(parsed, ParseError) else parsed


class OffScreen(MobileUse):
    def to_pixels(self, call, width, height):
        if "coordinate" not in call.arguments:
            return call
        x, y = call.arguments["coordinate"]
        moved = [round(x * width / 999), round(y * height / 999)]
        return Call(call.name, {**call.arguments, "coordinate": moved}, call.ends)


class Mirrored(BrowserUse):
    def to_grid(self, call, width, height):
        moved = super().to_grid(call, width, height)
        if "coordinate" not in moved.arguments:
            return moved
        x, y = moved.arguments["coordinate"]
        return Call(moved.name, {**moved.arguments, "coordinate": [999 - x, y]}, moved.ends)


class Drops(MobileUse):
    def to_pixels(self, call, width, height):
        moved = super().to_pixels(call, width, height)
        kept = {k: v for k, v in moved.arguments.items() if k != "time"}
        return Call(moved.name, kept, moved.ends)


class HidesTools(ToolUse):
    def system_prompt(self, task, tools=()):
        return super().system_prompt(task)


class IgnoresTools(ToolUse):
    def parse(self, text, tools=()):
        return super().parse(text)


class ChangesTools(ToolUse):
    def system_prompt(self, task, tools=()):
        for tool in tools:
            tool.pop("description")
        return super().system_prompt(task, tools)


class Remembers(ToolUse):
    """A tool that was listed once is taken for ever."""

    def __init__(self):
        super().__init__()
        self.known = []

    def parse(self, text, tools=()):
        self.known += tools
        return super().parse(text, self.known)


class OddlyDescribed(MobileUse):
    def describe(self):
        return {**super().describe(), "main": {"a set"}}


SPECIMENS = {
    Incomplete: "seen: no parse, to_pixels, to_grid, render, observation_text",
    Unsteady: "two of them prompt differently",
    Silent: "system_prompt returns text",
    Wordless: "observation_text returns text",
    Undescribed: "it says what its tools are",
    PromisesMore: "every tool that the prompt names can be called",
    TakesMore: "the parser takes exactly the tools that the prompt names",
    LosesArguments: "a rendered call parses back to itself",
    Rounds: "a rendered call parses back to itself",
    TakesAnything: "the parser takes exactly the tools that the prompt names",
    Raises: "seen: ValueError: cannot read this",
    Mute: "a refusal says why",
    ReturnsNone: "parse returns calls or a ParseError",
    Forgetful: "the same words are always read alike",
    OffScreen: "positions stay on the screen",
    Mirrored: "positions go from pixels to the grid and back",
    Drops: "change the positions and nothing else",
    HidesTools: "seen: a listed tool is taken and not named in the prompt",
    IgnoresTools: "seen: a listed tool is named in the prompt and refused",
    ChangesTools: "the callable tools are only read",
    Remembers: "a tool that is not listed is refused",
    OddlyDescribed: "describe() is enough to build an equal",
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda kind: kind.__name__)
def test_a_broken_action_space_is_caught_by_the_check_that_is_about_it(specimen):
    assert SPECIMENS[specimen] in caught(specimen)


def test_a_space_that_is_made_already_can_be_checked():
    check_action_space(MobileUse(prompt="short"))


def test_parameters_are_keywords_of_the_check():
    check_action_space("mobile_use", grid=0, actions=("click", "terminate"))
    assert "unknown parameter 'gird'" in caught("mobile_use", gird=0)


def test_where_names_the_line_that_raised():
    line = Raises.parse.__code__.co_firstlineno + 2
    assert f"test_check_action_space.py:{line}" in caught(Raises)
