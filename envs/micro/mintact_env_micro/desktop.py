"""The desktop: open the context menu of the named file, choose the named item, terminate."""

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
    centre,
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
from mintact_platform.records.verdict import StateCheck

TOOL = "computer_use"
WALLPAPER = (60, 90, 110)


@dataclass(frozen=True, slots=True)
class DesktopState:
    """Coloured files; a right click opens a menu of three items near the pointer.

    Attributes:
        files: name and box of each file.
        items: colours of the menu's items, top to bottom.
        file: the file to open the menu of.
        item: the item to choose.
        opened: the file whose menu was opened last.
        menu: top left corner of the open menu.
        chosen: the item chosen last.
    """

    files: Elements
    items: tuple[str, ...]
    file: str
    item: str
    opened: str | None = None
    menu: tuple[int, int] | None = None
    chosen: str | None = None
    ended: bool = False
    note: str = ""
    text: str = ""

    domain: ClassVar[str] = "desktop"
    action_space: ClassVar[str] = "computer_use"
    template: ClassVar[str] = "right click {file} then choose {item}"
    max_turns: ClassVar[int] = 4

    @classmethod
    def start(cls, seed: int, layout: Layout) -> DesktopState:
        """The first screen of an episode."""
        rng = stream(cls.domain, seed)
        files = place_icons(rng, layout)
        items = tuple(rng.sample(layout.palette, 3))
        return cls(files, items, file=rng.choice(files)[0], item=rng.choice(items))

    @property
    def goal(self) -> str:
        """The instruction."""
        return self.template.format(file=self.file, item=self.item)

    def apply(self, name: str, arguments: Mapping[str, Any]) -> DesktopState:
        """The state after a call."""
        state = replace(self, note="")
        coordinate = arguments.get("coordinate")
        match name, arguments.get("action"):
            case "computer_use", "terminate":
                return replace(state, ended=True)
            case "computer_use", "right_click" if self.menu is None:
                return state._open(hit(self.files, coordinate), coordinate)
            case "computer_use", "left_click" if self.menu is not None:
                chosen = hit(self._menu_items(), coordinate) or self.chosen
                return replace(state, chosen=chosen, menu=None)
            case "computer_use", "right_click" | "left_click" | "wait":
                return state
        return replace(state, note=unusable(name, arguments))

    def decisions(self) -> tuple[Decision, ...]:
        """Open a menu, choose an item, or end once anything was chosen."""
        if self.chosen is not None:
            return ending(TOOL, {"action": "terminate", "status": "success"})
        if self.menu is None:
            options = right_first(self.files, self.file)
            return tuple(pointing(f"menu {k}", TOOL, "right_click", k, box) for k, box in options)
        options = right_first(self._menu_items(), self.item)
        return tuple(pointing(f"choose {k}", TOOL, "left_click", k, box) for k, box in options)

    def elements(self) -> Elements:
        """The files, or the items of the open menu (which may cover files)."""
        return self.files if self.menu is None else self._menu_items()

    def inside(self) -> DesktopState:
        """The second screen, as the right first action shows it."""
        return self._open(self.file, centre(dict(self.files)[self.file]))

    def check(self) -> StateCheck:
        """The right item was chosen from the right file's menu."""
        return scored(self.ended, file=self.opened == self.file, item=self.chosen == self.item)

    def render(self) -> Screenshot:
        """The screen, uint8 `[128, 128, 3]`."""
        image = Image.new("RGB", (SIZE, SIZE), WALLPAPER)
        draw = ImageDraw.Draw(image)
        for name, (x0, y0, x1, y1) in self.files:
            draw.rectangle((x0, y0, x1, y1), fill=COLOURS[name])
            draw.polygon([(x1 - 7, y0), (x1, y0), (x1, y0 + 7)], fill=WALLPAPER)
        if self.menu is not None:
            x, y = self.menu
            draw.rectangle((x, y, x + 32, y + 96), fill=(250, 250, 250))
            for name, (x0, y0, x1, y1) in self._menu_items():
                draw.rectangle((x0 + 1, y0 + 1, x1 - 1, y1 - 1), fill=COLOURS[name])
        elif self.chosen is not None:
            draw.rectangle((0, 118, SIZE, SIZE), fill=(20, 20, 20))
            draw.rectangle((4, 120, 60, 126), fill=COLOURS[self.chosen])
        return pixels(image)

    def _open(self, file: str | None, coordinate: Any) -> DesktopState:
        if file is None:
            return self
        column, row = int(coordinate[0]) // 32, int(coordinate[1]) // 32
        return replace(self, opened=file, menu=(min(column + 1, 3) * 32, min(row, 1) * 32))

    def _menu_items(self) -> Elements:
        x, y = self.menu or (0, 0)
        return tuple(
            (name, (x + 2.0, y + i * 32 + 2.0, x + 30.0, y + i * 32 + 30.0))
            for i, name in enumerate(self.items)
        )
