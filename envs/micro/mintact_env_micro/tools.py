"""The toolbox: find the tool for a topic, call it with a colour seen in the picture, terminate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from PIL import Image, ImageDraw

from mintact_env_micro.scene import (
    COLOURS,
    SIZE,
    Decision,
    Elements,
    Layout,
    Screenshot,
    ending,
    pixels,
    scored,
    stream,
    unusable,
)
from mintact_platform.actions.space import Call
from mintact_platform.records.demonstration import Box, Focus
from mintact_platform.records.verdict import StateCheck

TOPICS = ("paint", "label", "print", "share")
SHAPES = ("circle", "square")


@dataclass(frozen=True, slots=True)
class ToolsState:
    """A picture of a circle and a square, and one hidden tool whose name the search reveals.

    Attributes:
        shape: the shape asked for.
        colours: colour of each shape.
        boxes: box of each shape.
        topic: what to do with the colour.
        digit: last letter of the hidden tool's name.
        found: whether the search revealed the tool.
        correct: whether the first call of the tool, if any, had the right colour and was the last.
    """

    shape: str
    colours: Mapping[str, str]
    boxes: Mapping[str, Box]
    topic: str
    digit: int
    found: bool = False
    correct: bool | None = None
    ended: bool = False
    note: str = ""
    text: str = ""

    domain: ClassVar[str] = "tools"
    action_space: ClassVar[str] = "tool_use"
    template: ClassVar[str] = "{topic} the color of the {shape}"
    max_turns: ClassVar[int] = 4

    @classmethod
    def start(cls, seed: int, layout: Layout) -> ToolsState:
        """The first observation of an episode."""
        rng = stream(cls.domain, seed)
        shape, topic, digit = rng.choice(SHAPES), rng.choice(TOPICS), rng.randint(0, 9)
        colours = dict(zip(SHAPES, rng.sample(layout.palette, 2), strict=True))
        corners = rng.sample([(x, y) for x in (10.0, 74.0) for y in (10.0, 74.0)], 2)
        boxes = {k: (x, y, x + 44, y + 44) for k, (x, y) in zip(SHAPES, corners, strict=True)}
        return cls(shape, colours, boxes, topic, digit)

    @property
    def goal(self) -> str:
        """The instruction."""
        return self.template.format(topic=self.topic, shape=self.shape)

    @property
    def tool(self) -> str:
        """The hidden tool's name."""
        return f"{self.topic}_{self.digit}"

    @property
    def schema(self) -> dict[str, Any]:
        """The hidden tool as a function schema."""
        return {
            "name": self.tool,
            "description": f"{self.topic} a color",
            "parameters": {
                "type": "object",
                "properties": {"color": {"type": "string"}},
                "required": ["color"],
            },
        }

    def apply(self, name: str, arguments: Mapping[str, Any]) -> ToolsState:
        """The state after a call; its reply is `text`."""
        state = replace(self, note="", text="error")
        if name == "terminate":
            return replace(state, ended=True, text="")
        if name == "search_tool":
            found = arguments.get("query") == self.topic
            names = [self.tool] if found else []
            return replace(state, found=self.found or found, text=json.dumps({"tools": names}))
        if self.found and name == self.tool:
            right = self.correct is None and arguments.get("color") == self.colours[self.shape]
            return replace(state, correct=right, text="ok")
        return replace(state, note=unusable(name, arguments))

    def decisions(self) -> tuple[Decision, ...]:
        """Search, call the found tool with a colour, or end once it was called."""
        if self.correct is not None:
            return ending("terminate", {"status": "success"})
        if not self.found:
            return (Decision(f"find {self.topic}", Call("search_tool", {"query": self.topic})),)
        return tuple(
            self._using(shape) for shape in sorted(SHAPES, key=lambda shape: shape != self.shape)
        )

    def elements(self) -> Elements:
        """Both shapes, each under its colour's and its own name."""
        return tuple(
            (name, self.boxes[shape]) for shape in SHAPES for name in (self.colours[shape], shape)
        )

    def inside(self) -> ToolsState:
        """There is only one screen."""
        return self

    def check(self) -> StateCheck:
        """The tool was called once, with the right colour."""
        return scored(self.ended, found=self.found, color=self.correct is True)

    def render(self) -> Screenshot:
        """The picture, uint8 `[128, 128, 3]`."""
        image = Image.new("RGB", (SIZE, SIZE), (245, 240, 230))
        draw = ImageDraw.Draw(image)
        circle, square = (COLOURS[self.colours[shape]] for shape in SHAPES)
        draw.ellipse(self.boxes["circle"], fill=circle, outline=(0, 0, 0), width=3)
        draw.rectangle(self.boxes["square"], fill=square)
        return pixels(image)

    def _using(self, shape: str) -> Decision:
        colour = self.colours[shape]
        call = Call(self.tool, {"color": colour})
        return Decision(f"{shape} is {colour}", call, Focus(shape, self.boxes[shape]))
