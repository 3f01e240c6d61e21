"""The arguments of every UI action, as pydantic models that read what models really write.

One class an action; its docstring and field descriptions are what the system prompt shows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

COORDINATES = ("coordinate", "coordinate2")
"""Names of the fields that hold a point; what a space converts between grid and pixels."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_KEYS = re.compile(r"^\s*keys\s*=\s*")
_DRIVE = re.compile(r"[A-Za-z]:\\|^\\\\")


def read_point(value: Any) -> list[int]:
    """A point from `[x, y]`, `"(x, y)"`, `{"x": x, "y": y}`, nested lists, or a box (its centre).

    Raises:
        ValueError: when there are not two or four finite numbers.
    """
    numbers = list(_numbers(value))
    if len(numbers) == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    if len(numbers) != 2:
        raise ValueError("must be two numbers [x, y]")
    return [round(number) for number in numbers]


def read_keys(value: Any) -> list[str]:
    """Key names from a list, a string (`"ctrl+c"`), or one with its name (`"keys=['ctrl'"`).

    Raises:
        ValueError: when no key is named.
    """
    parts = value if isinstance(value, list) else [value]
    keys = [key for part in parts for key in _split_keys(part)]
    if not keys:
        raise ValueError("must name at least one key")
    return keys


def read_text(value: Any) -> Any:
    r"""Text to type, in which an escaped line break (`\n`, two characters) is a line break.

    Left alone where a backslash has another meaning: Windows paths, quoted code, other escapes.
    """
    if not isinstance(value, str) or _DRIVE.search(value) or '"' in value or "'" in value:
        return value
    if value.count("\\") != value.count("\\n"):
        return value
    return value.replace("\\n", "\n")


def _numbers(value: Any) -> Iterable[float]:
    if isinstance(value, bool):
        raise ValueError("must be two numbers [x, y]")
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise ValueError("must be finite")
        yield value
    elif isinstance(value, str):
        yield from map(float, _NUMBER.findall(value))
    elif isinstance(value, Mapping):
        if not {"x", "y"} <= value.keys():
            raise ValueError("must be two numbers [x, y]")
        yield from _numbers([value["x"], value["y"]])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    else:
        raise ValueError("must be two numbers [x, y]")


def _split_keys(part: Any) -> list[str]:
    if not isinstance(part, str):
        raise ValueError("must be a list of key names")
    bare = _KEYS.sub("", part)
    names = [name.strip().strip("[]'\"").strip() or name.strip() for name in bare.split(",")]
    keys: list[str] = []
    for name in filter(None, names if len(bare.strip()) > 1 else [bare.strip()]):
        pieces = [piece.strip() for piece in name.split("+")]
        keys.extend(pieces if all(pieces) else [name])
    return keys


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _capitalised(value: Any) -> Any:
    return value.strip().capitalize() if isinstance(value, str) else value


def _one_key(value: Any) -> Any:
    return "+".join(read_keys(value)) if isinstance(value, str | list) else value


Point = Annotated[
    list[int],
    BeforeValidator(read_point),
    WithJsonSchema({"type": "array", "description": "The position [x, y] on the screen."}),
]
Keys = Annotated[
    list[str],
    BeforeValidator(read_keys),
    Field(description='Key names in the order of pressing, such as ["ctrl", "c"].'),
]
Typed = Annotated[str, BeforeValidator(read_text)]
Seconds = Annotated[float, Field(ge=0, le=10, description="Seconds, at most 10.")]
Button = Annotated[Literal["Back", "Home", "Menu", "Enter"], BeforeValidator(_capitalised)]
Status = Annotated[Literal["success", "failure"], BeforeValidator(_lower)]
Direction = Annotated[Literal["up", "down", "left", "right"], BeforeValidator(_lower)]
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
    coordinate2: Annotated[
        Point, WithJsonSchema({"type": "array", "description": "Where the finger leaves."})
    ]


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
    key: Annotated[str, BeforeValidator(_one_key)]


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
