"""The action spaces of what is seen on a screen: phones, desktops, browsers.

Each UI domain offers one function with its own actions and nothing of the others': a browser agent
is never shown `long_press`, and a call to it is refused with an error that the model reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from mintact_platform.actions import arguments as a
from mintact_platform.actions.grid import Grid
from mintact_platform.actions.parse import accept, read_calls
from mintact_platform.actions.prompt import (
    Form,
    action_name,
    action_schema,
    full_prompt,
    function_schema,
    render_call,
    short_prompt,
)
from mintact_platform.actions.space import Call, ParseError
from mintact_platform.actions.tools import ToolUse as ToolUse
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import Task

_RULES = (
    "First think between <think> and </think>: what the screenshot shows, what is left to do.",
    "Then write one call.",
)


class ScreenSpace:
    """A domain that is seen in screenshots and driven through one function.

    Args:
        prompt: `full` for pretrained models, `short` for tiny ones.
        grid: far edge of the coordinate grid; 0 for pixels.
        actions: offer only these actions; None offers all of the domain's.

    Attributes:
        name: registered name and name of the function.
        domain: as in a task.
    """

    name: ClassVar[str]
    domain: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    all_actions: ClassVar[tuple[type[a.Action], ...]]
    main_actions: ClassVar[tuple[str, ...]]
    ending: ClassVar[str] = "terminate"
    aliases: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, *, prompt: Form = "full", grid: int = 999, actions: tuple[str, ...] | None = None
    ) -> None:
        self.prompt, self.grid = prompt, Grid(grid)
        known = {action_name(action): action for action in self.all_actions}
        for name in actions or ():
            if name not in known:
                raise ConfigurationError(
                    f"no action {name!r}", where=self.name, next=near_match(name, known)
                )
        self.actions = known if actions is None else {name: known[name] for name in actions}
        self._named = self.main_actions if actions is None else actions
        self._fields = {field for model in self.actions.values() for field in model.model_fields}

    def schema(self) -> dict[str, Any]:
        """The function's signature as the full prompt shows it."""
        where = (
            f"Coordinates run from [0, 0] at the top left to [{self.grid.steps}, "
            f"{self.grid.steps}] at the bottom right, whatever the size of the screenshot."
            if self.grid.steps
            else "Coordinates are pixels of the screenshot, [0, 0] at the top left."
        )
        text = f"{self.description} {where}"
        return function_schema(self.name, text, tuple(self.actions.values()))

    def describe(self) -> dict[str, Any]:
        """The space as JSON values, from which `described.described_space` builds its equal."""
        return {
            "name": self.name,
            "domain": self.domain,
            "style": "ui",
            "title": self.title,
            "description": self.description,
            "prompt": self.prompt,
            "grid": self.grid.steps,
            "functions": [self.schema()["function"]],
            "actions": [action_schema(action) for action in self.actions.values()],
            "main": list(self._named),
            "ends": [self.ending],
            "aliases": dict(self.aliases),
        }

    def system_prompt(self, task: Task, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The domain's prompt; the same for every task, so that its tokens are cached."""
        if self.prompt == "short":
            return short_prompt(self.title, self.name, self._named)
        end = f"When the task is done or cannot be done, call `{self.ending}`."
        return full_prompt([self.schema()], (*_RULES, end))

    def parse(
        self, text: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Call, ...] | ParseError:
        """Calls up to the first that ends the episode, arguments checked and in the grid."""
        return accept(read_calls(text), self._checked)

    def to_pixels(self, call: Call, width: int, height: int) -> Call:
        """Every coordinate as integer pixels of a `width` × `height` screenshot."""
        return _moved(call, self.grid.to_pixel, width, height)

    def to_grid(self, call: Call, width: int, height: int) -> Call:
        """Every coordinate as grid values."""
        return _moved(call, self.grid.to_grid, width, height)

    def render(self, thought: str, call: Call) -> str:
        """`<think>…</think><tool_call>{…}</tool_call>`, the action first among the arguments."""
        given = call.arguments
        model = self.actions.get(given.get("action", ""))
        order = ("action", *(model.model_fields if model else ()))
        ordered = {key: given[key] for key in order if key in given}
        return render_call(thought, Call(call.name, {**ordered, **given}))

    def observation_text(self, text: str) -> str:
        """The text as it is: a screen's words stand beside its screenshot."""
        return text

    def _checked(self, call: Call) -> Call | ParseError:
        given = {key: value for key, value in call.arguments.items() if value is not None}
        verb = given.pop("action", None)
        if verb is None and call.name != self.name:
            verb = call.name
        elif call.name not in ("", self.name, verb):
            return ParseError(f"unknown function {call.name!r}; call {self.name!r}")
        if not isinstance(verb, str) or not verb:
            return ParseError(f"{self.name} needs an action; offered: {', '.join(self.actions)}")
        verb = verb.strip()
        verb = verb if verb in self.actions else self.aliases.get(verb, verb)
        if verb not in self.actions:
            offered = ", ".join(self.actions)
            return ParseError(f"{self.name} has no action {verb!r}; offered: {offered}")
        for key in given:
            if key not in self._fields:
                hint = near_match(key, self._fields - {"action"})
                return ParseError(f"{verb}: unknown argument {key!r}; {hint}")
        return self._validated(verb, given)

    def _validated(self, verb: str, given: Mapping[str, Any]) -> Call | ParseError:
        model = self.actions[verb]
        # an argument of another action is harmless: the schema offers all of them together
        own = {key: value for key, value in given.items() if key in model.model_fields}
        try:
            checked = model(**{"action": verb, **own})
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            if first["type"] == "missing":
                return ParseError(f"{verb}: argument {field!r} is missing")
            problem = first["msg"].removeprefix("Value error, ").lower()
            return ParseError(f"{verb}: argument {field!r}: {problem}")
        values = checked.model_dump(exclude_unset=True)
        return Call(self.name, values, ends=verb == self.ending)


class MobileUse(ScreenSpace):
    """Phones: touch, text, system buttons."""

    name, domain, title = "mobile_use", "mobile", "Phone"
    description = "Operate a phone by touch. Its screen is seen only in screenshots."
    main_actions = ("click", "type", "swipe", "terminate")
    all_actions = (
        a.Click,
        a.LongPress,
        a.Swipe,
        a.Type,
        a.SystemButton,
        a.Open,
        a.Wait,
        a.Answer,
        a.Terminate,
    )


class ComputerUse(ScreenSpace):
    """Desktops: mouse and keyboard."""

    name, domain, title = "computer_use", "desktop", "Desktop"
    description = "Operate a desktop computer by mouse and keyboard, seen only in screenshots."
    main_actions = ("left_click", "right_click", "type", "terminate")
    aliases: ClassVar[Mapping[str, str]] = {"click": "left_click"}
    all_actions = (
        a.LeftClick,
        a.RightClick,
        a.MiddleClick,
        a.DoubleClick,
        a.TripleClick,
        a.MouseMove,
        a.LeftClickDrag,
        a.Scroll,
        a.HorizontalScroll,
        a.Type,
        a.Key,
        a.KeyDown,
        a.KeyUp,
        a.Wait,
        a.Answer,
        a.Terminate,
    )


class BrowserUse(ScreenSpace):
    """Websites: one page of a browser."""

    name, domain, title = "browser_use", "web", "Browser"
    description = "Operate the page of a web browser, seen only in screenshots."
    main_actions = ("click", "type", "stop")
    ending = "stop"
    all_actions = (
        a.Click,
        a.Hover,
        a.TypeInto,
        a.Press,
        a.ScrollPage,
        a.GoBack,
        a.GoForward,
        a.WaitPage,
        a.Stop,
    )


def _moved(call: Call, convert: Callable[[float, int], int], width: int, height: int) -> Call:
    moved = dict(call.arguments)
    for field in a.COORDINATES:
        if field in moved:
            x, y = moved[field]
            moved[field] = [convert(x, width), convert(y, height)]
    return Call(call.name, moved, ends=call.ends)
