"""The phone: open the named app, turn on the named switch, terminate."""

from __future__ import annotations

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
    hit,
    pixels,
    place_icons,
    pointing,
    right_first,
    scored,
    stream,
    unusable,
)
from mintact_platform.records.demonstration import Box
from mintact_platform.records.verdict import StateCheck

TOOL = "mobile_use"


@dataclass(frozen=True, slots=True)
class MobileState:
    """A home screen of coloured apps, each of which opens the same page of three switches.

    Attributes:
        apps: name and box of each app.
        rows: colours of the three switches, top to bottom.
        app: the app to open.
        row: the switch to turn on.
        page: the app that is open.
        on: the switches that are on.
    """

    apps: Elements
    rows: tuple[str, ...]
    app: str
    row: str
    page: str | None = None
    on: frozenset[str] = frozenset()
    ended: bool = False
    note: str = ""
    text: str = ""

    domain: ClassVar[str] = "mobile"
    action_space: ClassVar[str] = "mobile_use"
    template: ClassVar[str] = "open {app} and turn on {switch}"
    max_turns: ClassVar[int] = 4

    @classmethod
    def start(cls, seed: int, layout: Layout) -> MobileState:
        """The first screen of an episode."""
        rng = stream(cls.domain, seed)
        apps = place_icons(rng, layout)
        rows = tuple(rng.sample(layout.palette, 3))
        return cls(apps, rows, app=rng.choice(apps)[0], row=rng.choice(rows))

    @property
    def goal(self) -> str:
        """The instruction."""
        return self.template.format(app=self.app, switch=self.row)

    def apply(self, name: str, arguments: Mapping[str, Any]) -> MobileState:
        """The state after a call."""
        state = replace(self, note="")
        match name, arguments.get("action"):
            case "mobile_use", "terminate":
                return replace(state, ended=True)
            case "mobile_use", "click" if self.page is None:
                return replace(state, page=hit(self.apps, arguments.get("coordinate")))
            case "mobile_use", "click":
                touched = hit(self._rows(_row), arguments.get("coordinate"))
                return state if touched is None else replace(state, on=self.on ^ {touched})
            case "mobile_use", "wait":
                return state
        return replace(state, note=unusable(name, arguments))

    def decisions(self) -> tuple[Decision, ...]:
        """Open an app, turn on a switch, or end once any switch is on."""
        if self.page is None:
            options = right_first(self.apps, self.app)
            return tuple(pointing(f"open {k}", TOOL, "click", k, box) for k, box in options)
        if not self.on:
            options = right_first(self.elements(), self.row)
            return tuple(pointing(f"turn on {k}", TOOL, "click", k, box) for k, box in options)
        return ending(TOOL, {"action": "terminate", "status": "success"})

    def elements(self) -> Elements:
        """The apps, or the colour blocks of the open page."""
        return self.apps if self.page is None else self._rows(_block)

    def inside(self) -> MobileState:
        """The second screen, as the right first action shows it."""
        return replace(self, page=self.app)

    def check(self) -> StateCheck:
        """The right app is open and only the right switch is on."""
        return scored(self.ended, app=self.page == self.app, switch=self.on == {self.row})

    def render(self) -> Screenshot:
        """The screen, uint8 `[128, 128, 3]`."""
        image = Image.new("RGB", (SIZE, SIZE), (235, 238, 245))
        draw = ImageDraw.Draw(image)
        if self.page is None:
            for name, box in self.apps:
                draw.rounded_rectangle(box, 6, fill=COLOURS[name])
            return pixels(image)
        draw.rectangle((0, 0, SIZE, 28), fill=COLOURS[self.page])
        for i, name in enumerate(self.rows):
            draw.rectangle(_row(i), fill=(255, 255, 255))
            draw.rectangle(_block(i), fill=COLOURS[name])
            _draw_switch(draw, _row(i), name in self.on)
        return pixels(image)

    def _rows(self, box: Any) -> Elements:
        return tuple((name, box(i)) for i, name in enumerate(self.rows))


def _row(i: int) -> Box:
    return 3.0, 34.0 + i * 32, 124.0, 62.0 + i * 32


def _block(i: int) -> Box:
    return 3.0, 35.0 + i * 32, 29.0, 61.0 + i * 32


def _draw_switch(draw: ImageDraw.ImageDraw, row: Box, on: bool) -> None:
    _, top, _, bottom = row
    track = (30, 120, 60) if on else (170, 170, 170)
    draw.rounded_rectangle((84, top + 5, 116, bottom - 5), 7, fill=track)
    knob = 102 if on else 86
    draw.ellipse((knob, top + 6, knob + 12, bottom - 6), fill=(255, 255, 255))
