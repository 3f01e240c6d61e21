"""What the four domains share: colours, boxes, icons on the grid, and the shape of a state."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from annotated_types import Interval
from PIL import Image

from mintact_platform.actions.space import Call
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.demonstration import Box, Focus
from mintact_platform.records.verdict import StateCheck

SIZE = 128
CELL = 32
COLOURS = {
    "red": (224, 40, 40),
    "green": (40, 180, 60),
    "blue": (40, 80, 230),
    "yellow": (240, 215, 30),
    "purple": (150, 50, 190),
    "orange": (250, 140, 20),
    "cyan": (30, 200, 215),
    "pink": (250, 130, 190),
}

Icons = Annotated[int, Interval(ge=2, le=len(COLOURS))]
Colours = Annotated[int, Interval(ge=3, le=len(COLOURS))]
Jitter = Annotated[int, Interval(ge=0, le=3)]

Screenshot = npt.NDArray[np.uint8]
Elements = tuple[tuple[str, Box], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How crowded the drawn screens are.

    Attributes:
        icons: coloured icons on the first screen of mobile and desktop, up to `colours`.
        colours: how many of the eight colours occur; 3 to 8.
        jitter: how far an icon may stand off its grid place, in pixels; 0 to 3.
    """

    icons: int = 4
    colours: int = 6
    jitter: int = 3

    def __post_init__(self) -> None:
        limits = {"colours": (3, len(COLOURS)), "icons": (2, self.colours), "jitter": (0, 3)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(
                    f"{name} must be {low} to {high}, got {value}", where="micro layout"
                )

    @property
    def palette(self) -> tuple[str, ...]:
        """The colour names that occur."""
        return tuple(COLOURS)[: self.colours]


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing a demonstrator may do now.

    Attributes:
        thought: a few words.
        call: the action, coordinates in pixels.
        focus: the element the thought names, if it names one on the screen.
    """

    thought: str
    call: Call
    focus: Focus | None = None


class State(Protocol):
    """An immutable episode state: the environment and the demonstrator run the same one."""

    domain: ClassVar[str]
    action_space: ClassVar[str]
    template: ClassVar[str]
    max_turns: ClassVar[int]

    @property
    def goal(self) -> str:
        """The instruction."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the agent ended the episode."""
        ...

    @property
    def text(self) -> str:
        """The text of the observation."""
        ...

    @property
    def note(self) -> str:
        """Why the last action changed nothing, where it was no action of this domain."""
        ...

    def apply(self, name: str, arguments: Mapping[str, Any]) -> State:
        """The state after a call with pixel coordinates; an unusable call only leaves a note."""
        ...

    def decisions(self) -> tuple[Decision, ...]:
        """What a demonstrator may do: the right decision first, then plausible wrong ones."""
        ...

    def elements(self) -> Elements:
        """Named regions of the screen."""
        ...

    def check(self) -> StateCheck:
        """Whether the goal state holds and the agent ended the episode."""
        ...


def stream(domain: str, seed: int) -> random.Random:
    """The random stream that sets up an episode."""
    return random.Random(f"{domain}:{seed}")


def place_icons(rng: random.Random, layout: Layout) -> Elements:
    """Coloured icons on distinct cells of the 4×4 grid, in reading order."""
    cells = [(row, column) for row in range(4) for column in range(4)]
    chosen = sorted(rng.sample(cells, layout.icons))
    icons = []
    for name, (row, column) in zip(rng.sample(layout.palette, layout.icons), chosen, strict=True):
        x = column * CELL + 3 + rng.randint(0, layout.jitter)
        y = row * CELL + 3 + rng.randint(0, layout.jitter)
        icons.append((name, (float(x), float(y), float(x + 25), float(y + 25))))
    return tuple(icons)


def hit(elements: Elements, coordinate: Any) -> str | None:
    """The element under a pixel coordinate; None for none or for no coordinate."""
    point = as_point(coordinate)
    if point is None:
        return None
    x, y = point
    return next((n for n, (x0, y0, x1, y1) in elements if x0 <= x <= x1 and y0 <= y <= y1), None)


def as_point(coordinate: Any) -> tuple[int, int] | None:
    """`[x, y]` as integers inside the screen, None for anything else."""
    if not isinstance(coordinate, list | tuple) or len(coordinate) != 2:
        return None
    if not all(isinstance(v, int | float) and 0 <= v < SIZE for v in coordinate):
        return None
    return int(coordinate[0]), int(coordinate[1])


def centre(box: Box) -> list[int]:
    """The pixel in the middle of a box."""
    return [int((box[0] + box[2]) / 2), int((box[1] + box[3]) / 2)]


def pointing(thought: str, name: str, action: str, target: str, box: Box) -> Decision:
    """The decision to point at a named element."""
    call = Call(name, {"action": action, "coordinate": centre(box)})
    return Decision(thought, call, Focus(target, box))


def right_first(elements: Elements, right: str) -> Elements:
    """The named element, then the others in their order."""
    return tuple(sorted(elements, key=lambda element: element[0] != right))


def ending(name: str, arguments: Mapping[str, Any]) -> tuple[Decision, ...]:
    """The only decision left once something was done: end the episode."""
    return (Decision("done", Call(name, arguments, ends=True)),)


def unusable(name: str, arguments: Mapping[str, Any]) -> str:
    """The note left by a call that is no action of the domain."""
    return f"nothing happens: {name} {json.dumps(dict(arguments), default=repr)}"


def scored(ended: bool, **conditions: bool) -> StateCheck:
    """A state check over named conditions; success needs all of them and a proper ending."""
    met = [ended, *conditions.values()]
    return StateCheck(all(met), sum(met) / len(met), {"ended": ended, **conditions})


def pixels(image: Image.Image) -> Screenshot:
    """A drawn image as uint8 `[height, width, 3]`."""
    return np.asarray(image, dtype=np.uint8)
