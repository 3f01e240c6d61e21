"""`browser_use_extended`: what a browser can do beyond one page, as actions of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from mintact_platform.actions.arguments import Action, Point
from mintact_platform.actions.ui import BrowserUse


class Drag(Action):
    """Drag from `coordinate` to `coordinate2` with the left button."""

    action: Literal["drag"]
    coordinate: Point
    coordinate2: Annotated[
        Point, WithJsonSchema({"type": "array", "description": "Where the button is released."})
    ]


class NewTab(Action):
    """Open another tab with the page this one started from."""

    action: Literal["new_tab"]


class SwitchTab(Action):
    """Show another tab."""

    action: Literal["switch_tab"]
    tab: Annotated[int, Field(ge=1, description="Number of the tab, counted from 1.")]


class CloseTab(Action):
    """Close the tab that is shown."""

    action: Literal["close_tab"]


class Upload(Action):
    """Choose a file for the file field at `coordinate`, or for the one that was clicked last."""

    action: Literal["upload"]
    file: Annotated[str, Field(description="Name of the file.")]
    coordinate: Point | None = None


class SelectOption(Action):
    """Choose an option of the list at `coordinate` by its words."""

    action: Literal["select_option"]
    coordinate: Point
    option: Annotated[str, Field(description="The option's words.")]


class BrowserUseExtended(BrowserUse):
    """Websites over several tabs, with drag, uploads and option lists."""

    name = "browser_use_extended"
    description = "Operate the tabs of a web browser, seen only in screenshots."
    aliases: ClassVar[Mapping[str, str]] = {"left_click_drag": "drag", "select": "select_option"}
    all_actions: ClassVar[tuple[type[Action], ...]] = (  # type: ignore[assignment]  # a longer one
        *BrowserUse.all_actions,
        Drag,
        NewTab,
        SwitchTab,
        CloseTab,
        Upload,
        SelectOption,
    )
