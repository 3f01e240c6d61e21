"""The arguments of every UI action, as pydantic models.

One class an action; its docstring and field descriptions are what the system prompt shows, and the
fields read what models really write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from mintact_platform.actions.values import (
    capitalised,
    lower,
    read_key,
    read_keys,
    read_point,
    read_text,
)

COORDINATES = ("coordinate", "coordinate2")
"""Names of the fields that hold a point; what a space converts between grid and pixels."""

READERS: Mapping[str, Callable[[Any], Any]] = {
    "point": read_point,
    "keys": read_keys,
    "key": read_key,
    "text": read_text,
    "lower": lower,
    "capitalised": capitalised,
}
"""How a field's value is read before it is checked, by the word `reads` in the field's schema."""


def _point(description: str) -> Any:
    return {"type": "array", "description": description, "reads": "point"}


def _reads(name: str) -> Any:
    return Field(json_schema_extra={"reads": name})


Point = Annotated[
    list[int],
    BeforeValidator(read_point),
    WithJsonSchema(_point("The position [x, y] on the screen.")),
]
Keys = Annotated[
    list[str],
    BeforeValidator(read_keys),
    Field(
        description='Key names in the order of pressing, such as ["ctrl", "c"].',
        json_schema_extra={"reads": "keys"},
    ),
]
Typed = Annotated[str, BeforeValidator(read_text), _reads("text")]
Seconds = Annotated[float, Field(ge=0, le=10, description="Seconds, at most 10.")]
Button = Annotated[
    Literal["Back", "Home", "Menu", "Enter"], BeforeValidator(capitalised), _reads("capitalised")
]
Status = Annotated[Literal["success", "failure"], BeforeValidator(lower), _reads("lower")]
Direction = Annotated[
    Literal["up", "down", "left", "right"], BeforeValidator(lower), _reads("lower")
]
Amount = Annotated[int, Field(ge=-(10**6), le=10**6)]


class Action(BaseModel):
    """One action of a UI function: a literal `action`, then its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: str


class Click(Action):
    """Tap or click the position."""

    action: Literal["click"]
    coordinate: Point


class LongPress(Action):
    """Press the position and hold it."""

    action: Literal["long_press"]
    coordinate: Point
    time: Seconds | None = None


class Swipe(Action):
    """Move a finger from `coordinate` to `coordinate2`."""

    action: Literal["swipe"]
    coordinate: Point
    coordinate2: Annotated[Point, WithJsonSchema(_point("Where the finger leaves."))]


class Type(Action):
    """Type text into the focused field."""

    action: Literal["type"]
    text: Typed


class SystemButton(Action):
    """Press a button of the phone."""

    action: Literal["system_button"]
    button: Button


class Open(Action):
    """Open the app that `text` names."""

    action: Literal["open"]
    text: str


class Wait(Action):
    """Wait for the screen to change."""

    action: Literal["wait"]
    time: Seconds | None = None


class Answer(Action):
    """Tell the user what was asked for."""

    action: Literal["answer"]
    text: str


class Terminate(Action):
    """End the task and say whether it is done."""

    action: Literal["terminate"]
    status: Status


class LeftClick(Action):
    """Click with the left button, at the position or where the pointer is."""

    action: Literal["left_click"]
    coordinate: Point | None = None


class RightClick(Action):
    """Click with the right button."""

    action: Literal["right_click"]
    coordinate: Point | None = None


class MiddleClick(Action):
    """Click with the middle button."""

    action: Literal["middle_click"]
    coordinate: Point | None = None


class DoubleClick(Action):
    """Click twice with the left button."""

    action: Literal["double_click"]
    coordinate: Point | None = None


class TripleClick(Action):
    """Click three times with the left button."""

    action: Literal["triple_click"]
    coordinate: Point | None = None


class MouseMove(Action):
    """Move the pointer to the position."""

    action: Literal["mouse_move"]
    coordinate: Point


class LeftClickDrag(Action):
    """Hold the left button and move the pointer from where it is to the position."""

    action: Literal["left_click_drag"]
    coordinate: Point


class Scroll(Action):
    """Turn the mouse wheel; positive is up."""

    action: Literal["scroll"]
    pixels: Amount


class HorizontalScroll(Action):
    """Turn the mouse wheel sideways; positive is right."""

    action: Literal["hscroll"]
    pixels: Amount


class Key(Action):
    """Press keys together, then release them in reverse order."""

    action: Literal["key"]
    keys: Keys


class KeyDown(Action):
    """Press keys and keep them down."""

    action: Literal["key_down"]
    keys: Keys


class KeyUp(Action):
    """Release keys."""

    action: Literal["key_up"]
    keys: Keys


class Hover(Action):
    """Move the pointer over the position."""

    action: Literal["hover"]
    coordinate: Point


class TypeInto(Action):
    """Type text into the focused field, or into the one at `coordinate`."""

    action: Literal["type"]
    text: Typed
    coordinate: Point | None = None
    enter: Annotated[bool, Field(description="Press Enter after typing.")] | None = None


class Press(Action):
    """Press a key or a combination such as `ctrl+a`."""

    action: Literal["press"]
    key: Annotated[str, BeforeValidator(read_key), _reads("key")]


class ScrollPage(Action):
    """Scroll the page, by about one screen or by `amount` pixels."""

    action: Literal["scroll"]
    direction: Direction
    amount: Amount | None = None


class GoBack(Action):
    """Go back to the previous page."""

    action: Literal["go_back"]


class GoForward(Action):
    """Go forward to the next page."""

    action: Literal["go_forward"]


class WaitPage(Action):
    """Wait for the page to change."""

    action: Literal["wait"]


class Stop(Action):
    """End the task; `response` is what the user asked to be told, or empty."""

    action: Literal["stop"]
    response: str = ""
